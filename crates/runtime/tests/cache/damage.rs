//! Entries that are not what was written.

use std::fs::{self, File};
use std::path::Path;

use rowloom_runtime::Error;
use rowloom_runtime::cache::CacheStats;

use crate::sources::{ARCH, cache, entry, files, get, only_reads, reference, small};

/// Whether an entry is refused when nothing may be compiled in its place.
fn refused(folder: &Path) -> bool {
    match only_reads(folder).image(&small(1), ARCH) {
        Ok(_) => false,
        Err(Error::NoCode { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

/// The right code, compiled again, and an entry as good as the first.
fn repaired(folder: &Path, expected: &[u8], original: &[u8], what: &str) {
    let (bytes, stats) = get(&cache(folder), &small(1));
    assert!(bytes == expected, "{what}");
    let counts = |stats: CacheStats| (stats.compiled, stats.rejected, stats.repairs, stats.disk_hits);
    assert_eq!(counts(stats), (1, 1, 1, 0), "{what}");
    assert!(fs::read(entry(folder)).unwrap() == original, "{what}");
    let (bytes, stats) = get(&cache(folder), &small(1));
    assert!(bytes == expected, "{what}");
    assert_eq!(counts(stats), (0, 0, 0, 1), "{what}");
}

struct Filled {
    folder: tempfile::TempDir,
    expected: Vec<u8>,
    original: Vec<u8>,
}

fn filled() -> Filled {
    let folder = tempfile::tempdir().unwrap();
    let expected = reference(&small(1));
    let (bytes, stats) = get(&cache(folder.path()), &small(1));
    assert_eq!((bytes == expected, stats.compiled, stats.repairs), (true, 1, 0));
    assert!(!refused(folder.path()));
    let original = fs::read(entry(folder.path())).unwrap();
    Filled { folder, expected, original }
}

#[test]
fn truncated_entries_are_never_loaded_and_are_repaired() {
    let Filled { folder, expected, original } = filled();
    let path = entry(folder.path());
    for length in 0..original.len() {
        fs::write(&path, &original[..length]).unwrap();
        assert!(refused(folder.path()), "{length} bytes");
    }
    for length in [0, 1, 103, 104, original.len() / 2, original.len() - 1] {
        fs::write(&path, &original[..length]).unwrap();
        repaired(folder.path(), &expected, &original, &format!("{length} bytes"));
    }
    fs::write(&path, [&original[..], b"x"].concat()).unwrap();
    repaired(folder.path(), &expected, &original, "a byte more");
}

#[test]
fn flipped_bits_are_never_loaded_and_are_repaired() {
    let Filled { folder, expected, original } = filled();
    let path = entry(folder.path());
    let flipped = |at: usize, bit: usize| {
        let mut bytes = original.clone();
        bytes[at] ^= 1 << bit;
        bytes
    };
    for at in 0..original.len() {
        // All bits of the header, one of each byte behind it.
        for bit in if at < 104 { 0..8 } else { at % 8..at % 8 + 1 } {
            fs::write(&path, flipped(at, bit)).unwrap();
            assert!(refused(folder.path()), "bit {bit} of byte {at}");
        }
    }
    for at in [0, 8, 12, 16, 48, 52, 60, 64, 72, 104, original.len() / 2, original.len() - 1] {
        fs::write(&path, flipped(at, 3)).unwrap();
        repaired(folder.path(), &expected, &original, &format!("byte {at}"));
    }
}

#[test]
fn foreign_files_are_replaced() {
    let Filled { folder, expected, original } = filled();
    let path = entry(folder.path());
    let other = tempfile::tempdir().unwrap();
    get(&cache(other.path()), &small(2));
    let other = fs::read(entry(other.path())).unwrap();
    for (what, bytes) in [
        ("text", b"somebody's notes".to_vec()),
        ("zeros", vec![0; original.len()]),
        ("bare code", expected.clone()),
        ("the entry of another source", other),
    ] {
        fs::write(&path, bytes).unwrap();
        repaired(folder.path(), &expected, &original, what);
    }
    // Larger than memory: only its header is read.
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    repaired(folder.path(), &expected, &original, "a terabyte of nothing");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    repaired(folder.path(), &expected, &original, "a device");
    fs::remove_file(&path).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(pipe.success());
    repaired(folder.path(), &expected, &original, "a pipe that nobody writes");
}

#[test]
fn a_pipe_in_place_of_a_lock_holds_up_nobody() {
    let Filled { folder, expected, .. } = filled();
    let entry = entry(folder.path());
    let lock = folder.path().join("locks").join(entry.file_name().unwrap()).with_extension("lock");
    fs::remove_file(&entry).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
    assert!(pipe.success());
    let (told, answer) = std::sync::mpsc::channel();
    let path = folder.path().to_owned();
    std::thread::spawn(move || told.send(get(&cache(&path), &small(1))));
    let (bytes, stats) = answer.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for nobody");
    assert_eq!((bytes == expected, stats.compiled, stats.lock_timeouts), (true, 1, 0));
    assert!(lock.exists(), "what is not ours stays");
}

#[test]
fn a_folder_in_place_of_an_entry_is_left_alone() {
    let Filled { folder, expected, .. } = filled();
    let path = entry(folder.path());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (bytes, stats) = get(&cache(folder.path()), &small(1));
    assert_eq!((bytes == expected, stats.compiled, stats.repairs), (true, 1, 0));
    assert!(path.is_dir());
    assert_eq!(files(folder.path(), "code"), [path]);
}

#[test]
fn verify_and_clear_tell_what_is_there() {
    let Filled { folder, .. } = filled();
    get(&cache(folder.path()), &small(2));
    let disk = crate::sources::disk(folder.path(), std::time::Duration::ZERO);
    let paths = files(folder.path(), "code");
    // Two of code and one of the compiler.
    assert_eq!(disk.verify().unwrap().0, 3);
    let bytes = fs::read(&paths[0]).unwrap();
    fs::write(&paths[1], &bytes).unwrap();
    let (whole, damaged) = disk.verify().unwrap();
    assert_eq!((whole, damaged.len()), (2, 1));
    assert_eq!((&damaged[0].path, &*damaged[0].reason), (&paths[1], "it is the entry of another key"));
    fs::write(&paths[1], &bytes[..50]).unwrap();
    assert_eq!(disk.verify().unwrap().1[0].reason, "it is too short");
    let usage = disk.usage().unwrap();
    assert_eq!((usage.entries, usage.bytes, usage.leftovers), (2, bytes.len() as u64 + 50, 0));
    assert_eq!(usage.by_target.len(), 2, "{usage:?}");
    // What is not ours stays.
    fs::write(folder.path().join("code/notes.txt"), "kept").unwrap();
    let (cleared, _) = disk.clear().unwrap();
    assert_eq!(cleared, 3);
    assert_eq!(files(folder.path(), "code"), [folder.path().join("code/notes.txt")]);
    assert_eq!(disk.usage().unwrap().entries, 0);
}
