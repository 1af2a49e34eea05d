//! Damage while others read.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::process::{again, finish, role, tell};
use crate::sources::{cache, files, get, only_reads, reference, small};

const ROUNDS: u64 = 100;
const KERNELS: u64 = 3;

/// A number for each step, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn a_hundred_rounds_of_damage_under_readers() {
    const TEST: &str = "torture::a_hundred_rounds_of_damage_under_readers";
    if let Some(role) = role() {
        return read_until_told(role.parse().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let code = folder.path().join("cache");
    for kernel in 0..KERNELS {
        get(&cache(&code), &small(kernel));
    }
    let originals: Vec<(PathBuf, Vec<u8>)> =
        files(&code, "code").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let readers: Vec<_> = (0..3)
        .map(|number| {
            let mut command = again(TEST, &number.to_string());
            command.env("ROWLOOM_TEST_FOLDER", folder.path()).spawn().unwrap()
        })
        .collect();
    let mut numbers = Numbers(17);
    for round in 0..ROUNDS {
        let victim = numbers.below(KERNELS) as usize;
        let (path, original) = &originals[victim];
        damage(&mut numbers, path, &originals);
        let start = Instant::now();
        while fs::read(path).ok().as_ref() != Some(original) {
            assert!(start.elapsed() < Duration::from_secs(20), "round {round} was never repaired");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    fs::write(folder.path().join("stop"), "").unwrap();
    let mut repairs = 0;
    for reader in readers {
        let (told, stderr) = finish(reader);
        assert_eq!(stderr, [""; 0]);
        assert_eq!(told["wrong"], json!(0));
        assert!(told["loads"].as_u64().unwrap() >= ROUNDS / 10, "{told}");
        repairs += told["compiled"].as_u64().unwrap();
    }
    assert!(repairs >= ROUNDS, "{repairs} of {ROUNDS} rounds");
    assert_eq!(files(&code, "locks").len(), 0);
    for kernel in 0..KERNELS {
        assert!(only_reads(&code).image(&small(kernel), crate::sources::ARCH).is_ok());
    }
}

/// In a process of its own: new caches over the folder, until a file says stop.
fn read_until_told(number: u64) {
    let folder = PathBuf::from(std::env::var_os("ROWLOOM_TEST_FOLDER").unwrap());
    let expected: Vec<Vec<u8>> = (0..KERNELS).map(|kernel| reference(&small(kernel))).collect();
    let (mut loads, mut wrong, mut compiled) = (0, 0, 0);
    while !folder.join("stop").exists() {
        let cache = cache(&folder.join("cache"));
        for step in 0..KERNELS {
            let kernel = (step + number) % KERNELS;
            let (bytes, _) = get(&cache, &small(kernel));
            loads += 1;
            wrong += u64::from(bytes != expected[kernel as usize]);
        }
        compiled += cache.stats().compiled;
    }
    tell(&json!({ "loads": loads, "wrong": wrong, "compiled": compiled }));
}

/// Does something to an entry in place, as no well-behaved program would.
fn damage(numbers: &mut Numbers, path: &Path, originals: &[(PathBuf, Vec<u8>)]) {
    let size = originals[0].1.len() as u64;
    // Somebody may just be replacing it: then the old file is damaged, and the new one next time.
    let Ok(mut file) = OpenOptions::new().read(true).write(true).open(path) else { return };
    match numbers.below(6) {
        0 => file.set_len(numbers.below(size)).unwrap(),
        1 => {
            let at = numbers.below(size);
            let old = fs::read(path).unwrap()[at as usize];
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[old ^ (1 << numbers.below(8))]).unwrap();
        }
        2 => fs::remove_file(path).unwrap(),
        3 => {
            let (_, other) = originals.iter().find(|(other, _)| other != path).unwrap();
            file.write_all(other).unwrap();
        }
        4 => {
            file.seek(SeekFrom::End(0)).unwrap();
            file.write_all(b"more").unwrap();
        }
        _ => {
            // Byte by byte, so that readers see every state between.
            for at in (0..size).step_by(97) {
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&[numbers.below(256) as u8]).unwrap();
            }
        }
    }
}
