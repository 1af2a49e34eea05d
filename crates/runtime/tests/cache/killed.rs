//! Processes that end while they write, or that never go on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rowloom_runtime::cache::CodeCache;
use serde_json::json;

use crate::process::{again, role, tell};
use crate::sources::{ARCH, cache, disk, files, get, reference, small};

/// Bytes of an entry to write before stopping for good; those of small pieces that are
/// known of a compiler are written as a whole.
const STOP_AT: &str = "ROWLOOM_TEST_STOP_AT";

/// Waits until a process has told something, and leaves it running.
fn wait_until_it_tells(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("told ")), "it ended before");
}

/// In a process of its own: stores code, stops in the middle of it, and holds its lock.
fn stop_in_the_middle() {
    fn stopping(file: &mut File, bytes: &[u8]) -> io::Result<()> {
        if bytes.windows(5).any(|word| word == b"NVRTC") {
            return file.write_all(bytes);
        }
        let stop_at: usize = std::env::var(STOP_AT).unwrap().parse().unwrap();
        file.write_all(&bytes[..stop_at.min(bytes.len())])?;
        file.flush()?;
        tell(&json!("in the middle"));
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let folder = std::env::var_os("ROWLOOM_TEST_FOLDER").unwrap();
    let disk = disk(Path::new(&folder), Duration::from_secs(10)).with_writer(stopping);
    let _ = CodeCache::over(None, Some(disk), true).image(&small(1), ARCH);
    unreachable!("it stops while it stores");
}

fn start(test: &str, folder: &Path, stop_at: usize) -> Child {
    let mut command = again(test, "stop");
    command.env("ROWLOOM_TEST_FOLDER", folder).env(STOP_AT, stop_at.to_string());
    let mut child = command.spawn().unwrap();
    wait_until_it_tells(&mut child);
    child
}

#[test]
fn a_killed_writer_leaves_no_entry_and_no_lock() {
    const TEST: &str = "killed::a_killed_writer_leaves_no_entry_and_no_lock";
    if role().is_some() {
        return stop_in_the_middle();
    }
    let expected = reference(&small(1));
    for stop_at in [0, 1, 72, 104, 1000, usize::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(TEST, folder.path(), stop_at);
        let left = files(folder.path(), "code");
        assert!(left.len() == 1 && left[0].extension().is_none_or(|extension| extension != "code"), "{left:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(files(folder.path(), "locks").len(), 1, "it was holding its lock");
        let start = Instant::now();
        let (bytes, stats) = get(&cache(folder.path()), &small(1));
        assert!(start.elapsed() < Duration::from_secs(5), "nobody waits for the dead");
        assert!(bytes == expected, "killed after {stop_at} bytes");
        assert_eq!((stats.compiled, stats.lock_timeouts, stats.repairs), (1, 0, 0));
        assert_eq!(get(&cache(folder.path()), &small(1)).1.disk_hits, 1);
        let usage = disk(folder.path(), Duration::ZERO).usage().unwrap();
        assert_eq!((usage.entries, usage.leftovers), (1, 1), "the half file counts as what it is");
    }
}

#[test]
fn a_holder_that_never_goes_on_is_waited_for_once() {
    const TEST: &str = "killed::a_holder_that_never_goes_on_is_waited_for_once";
    if role().is_some() {
        return stop_in_the_middle();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(TEST, folder.path(), 50);
    let timeout = Duration::from_millis(300);
    let impatient = CodeCache::over(None, Some(disk(folder.path(), timeout)), true);
    let start = Instant::now();
    let (bytes, stats) = get(&impatient, &small(1));
    let waited = start.elapsed();
    assert!(waited >= timeout && waited < Duration::from_secs(8), "{waited:?}");
    assert!(bytes == reference(&small(1)));
    assert_eq!((stats.compiled, stats.lock_timeouts), (1, 1));
    // It was stored all the same, and other kernels have other locks.
    assert_eq!(get(&cache(folder.path()), &small(1)).1.disk_hits, 1);
    assert_eq!(get(&impatient, &small(2)).1.lock_timeouts, 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_lock_file_without_a_holder_means_nothing() {
    let folder = tempfile::tempdir().unwrap();
    get(&cache(folder.path()), &small(1));
    let entry = crate::sources::entry(folder.path());
    std::fs::remove_file(&entry).unwrap();
    let lock = folder.path().join("locks").join(entry.file_stem().unwrap()).with_extension("lock");
    std::fs::write(&lock, "left behind").unwrap();
    let start = Instant::now();
    let stats = get(&cache(folder.path()), &small(1)).1;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!((stats.compiled, stats.lock_timeouts), (1, 0));
    assert!(!lock.exists());
}
