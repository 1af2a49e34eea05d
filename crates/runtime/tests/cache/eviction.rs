//! The limit of a folder.

use std::time::{Duration, SystemTime};

use rowloom_runtime::cache::{CodeCache, Disk};

use crate::sources::{ARCH, entry, files, get, only_reads, small};

#[test]
fn what_was_used_least_recently_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |limit| CodeCache::over(None, Some(Disk::new(folder.path(), limit, Duration::ZERO)), true);
    get(&limited(1 << 30), &small(0));
    let size = entry(folder.path()).metadata().unwrap().len();
    // Room for three and a half.
    let limit = size * 7 / 2;
    for number in 1..3 {
        get(&limited(limit), &small(number));
    }
    // All were used long ago, in order; then the first again.
    for (age, path) in (1..).zip(files(folder.path(), "code")) {
        let time = SystemTime::now() - Duration::from_secs(1000 * age);
        std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(get(&limited(limit), &small(0)).1.disk_hits, 1);
    let stats = get(&limited(limit), &small(3)).1;
    assert_eq!((stats.compiled, stats.evictions), (1, 1));
    let known = |number| only_reads(folder.path()).image(&small(number), ARCH).is_ok();
    assert!(known(0) && known(3), "those used last");
    assert_eq!([1, 2].into_iter().filter(|number| known(*number)).count(), 1);
    assert_eq!(files(folder.path(), "code").len(), 3);
}

#[test]
fn one_process_stays_within_the_limit_too() {
    let folder = tempfile::tempdir().unwrap();
    let first = CodeCache::over(None, Some(Disk::new(folder.path(), 1 << 30, Duration::ZERO)), true);
    get(&first, &small(0));
    let size = entry(folder.path()).metadata().unwrap().len();
    let cache = CodeCache::over(None, Some(Disk::new(folder.path(), size * 3, Duration::ZERO)), true);
    for number in 1..8 {
        get(&cache, &small(number));
    }
    assert!(files(folder.path(), "code").len() <= 3);
    assert!(cache.stats().evictions >= 5, "{:?}", cache.stats());
}

#[test]
fn what_is_larger_than_the_limit_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = CodeCache::over(None, Some(Disk::new(folder.path(), 200, Duration::ZERO)), true);
    assert_eq!(get(&cache, &small(0)).1.bytes_written, 0);
    assert_eq!(files(folder.path(), "code").len(), 0);
}

#[test]
fn what_killed_processes_left_goes_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    get(&crate::sources::cache(folder.path()), &small(0));
    let leave = |path: &str, age: u64| {
        let file = std::fs::File::create(folder.path().join(path)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    };
    leave("code/.new-old", 4000);
    leave("code/.new-young", 60);
    leave("locks/0.lock", 4000);
    leave("code/notes", 4000);
    get(&crate::sources::cache(folder.path()), &small(1));
    let left: Vec<_> = files(folder.path(), "code").iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert!(left.iter().any(|name| name == ".new-young") && left.iter().any(|name| name == "notes"), "{left:?}");
    assert!(left.iter().all(|name| name != ".new-old"), "{left:?}");
    assert_eq!(files(folder.path(), "locks").len(), 0);
}
