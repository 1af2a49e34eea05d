//! Folders that cannot be used: launches go on, and one line says so.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use rowloom_runtime::cache::CodeCache;
use serde_json::{Value, json};

use crate::process::{again, finish, role, tell, told};
use crate::sources::{ARCH, disk, files, get, reference, small};

/// Gets three kernels from this process's cache, in a process of its own.
fn get_three(test: &str, folder: &OsStr) -> (Value, Vec<String>) {
    finish(again(test, "three").env("ROWLOOM_CACHE_DIR", folder).spawn().unwrap())
}

fn three() {
    let cache = CodeCache::of_process();
    for number in 0..3 {
        assert!(cache.image(&small(number), ARCH).unwrap().bytes == reference(&small(number)));
    }
    tell(&told(cache));
}

fn works_and_says_so_once((told, stderr): (Value, Vec<String>), words: &str) {
    assert_eq!((&told["compiled"], &told["bytes_written"]), (&json!(3), &json!(0)), "{told}");
    assert_eq!(stderr.len(), 1, "{stderr:?}");
    assert!(stderr[0].starts_with("rowloom: cannot ") && stderr[0].contains(words), "{stderr:?}");
}

#[test]
fn a_folder_that_cannot_be_made() {
    if role().is_some() {
        return three();
    }
    // Below a regular file not even root makes one.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let below = file.join("cache");
    let outcome = get_three("places::a_folder_that_cannot_be_made", below.as_os_str());
    works_and_says_so_once(outcome, "every process compiles its kernels anew");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn parts_that_are_files() {
    if role().is_some() {
        return three();
    }
    let folder = tempfile::tempdir().unwrap();
    for part in ["code", "compilers", "locks"] {
        std::fs::write(folder.path().join(part), "kept").unwrap();
    }
    let outcome = get_three("places::parts_that_are_files", folder.path().as_os_str());
    works_and_says_so_once(outcome, "cannot write the cache in");
}

#[test]
fn an_empty_name_turns_it_off() {
    if role().is_some() {
        return three();
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = again("places::an_empty_name_turns_it_off", "three");
    command.env("ROWLOOM_CACHE_DIR", "").env("HOME", home.path()).env("XDG_CACHE_HOME", home.path());
    let (told, stderr) = finish(command.spawn().unwrap());
    assert_eq!((&told["compiled"], stderr.len()), (&json!(3), 0), "{told} {stderr:?}");
    assert_eq!(home.path().read_dir().unwrap().count(), 0);
}

#[test]
fn without_a_name_it_lies_in_the_users_own_folder() {
    if role().is_some() {
        return three();
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = again("places::without_a_name_it_lies_in_the_users_own_folder", "three");
    command.env_remove("ROWLOOM_CACHE_DIR").env_remove("XDG_CACHE_HOME").env("HOME", home.path());
    let (told, stderr) = finish(command.spawn().unwrap());
    assert_eq!((&told["compiled"], stderr.len()), (&json!(3), 0), "{told} {stderr:?}");
    assert_eq!(files(&home.path().join(".cache/rowloom"), "code").len(), 3);
}

/// A disk that takes 100 bytes of each file.
fn full(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(&bytes[..bytes.len().min(100)])?;
    Err(io::ErrorKind::StorageFull.into())
}

#[test]
fn a_full_disk() {
    const TEST: &str = "places::a_full_disk";
    let in_folder = |folder: &Path| disk(folder, Duration::from_secs(10)).with_writer(full);
    if role().is_some() {
        let folder = std::env::var_os("ROWLOOM_CACHE_DIR").unwrap();
        let cache = CodeCache::over(None, Some(in_folder(Path::new(&folder))), true);
        for number in 0..3 {
            assert!(cache.image(&small(number), ARCH).unwrap().bytes == reference(&small(number)));
        }
        return tell(&told(&cache));
    }
    let folder = tempfile::tempdir().unwrap();
    works_and_says_so_once(get_three(TEST, folder.path().as_os_str()), "no storage space");
    // Nothing half is left, and with room again all is as ever.
    assert_eq!(files(folder.path(), "code").len() + files(folder.path(), "locks").len(), 0);
    assert_eq!(get(&crate::sources::cache(folder.path()), &small(1)).1.compiled, 1);
    assert_eq!(get(&crate::sources::cache(folder.path()), &small(1)).1.disk_hits, 1);
}

#[test]
fn a_misspelt_switch_is_an_error_and_a_misspelt_limit_a_notice() {
    const TEST: &str = "places::a_misspelt_switch_is_an_error_and_a_misspelt_limit_a_notice";
    if role().is_some() {
        let error = CodeCache::of_process().image(&small(1), ARCH).map(drop).map_err(|error| error.to_string());
        return tell(&json!(error.err()));
    }
    let folder = tempfile::tempdir().unwrap();
    let with = |name: &str, value: &str| {
        let mut command = again(TEST, "misspelt");
        finish(command.env("ROWLOOM_CACHE_DIR", folder.path()).env(name, value).spawn().unwrap())
    };
    let (error, _) = with("ROWLOOM_JIT", "OFF");
    assert_eq!(error, json!("the environment variable ROWLOOM_JIT is `OFF`; it must be on or off"));
    let (error, stderr) = with("ROWLOOM_CACHE_BYTES", "1 GB");
    assert_eq!((error, stderr.len()), (Value::Null, 1), "{stderr:?}");
    assert!(stderr[0].contains("ROWLOOM_CACHE_BYTES is `1 GB`; it must be a number of bytes"), "{stderr:?}");
}
