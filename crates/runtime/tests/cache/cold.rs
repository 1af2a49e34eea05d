//! Processes that start together, and those that come after.

use std::time::{Duration, Instant, SystemTime};

use rowloom_runtime::Nvrtc;
use rowloom_runtime::cache::{CodeCache, Settings};
use serde_json::{Value, json};

use crate::process::{again, finish, role, tell, told};
use crate::sources::{ARCH, cache, files, plan, reference, small};

const KERNELS: u64 = 4;

#[test]
fn eight_cold_processes_compile_each_kernel_once() {
    const TEST: &str = "cold::eight_cold_processes_compile_each_kernel_once";
    if let Some(role) = role() {
        let number: u64 = role.parse().unwrap();
        let go = std::path::PathBuf::from(std::env::var_os("ROWLOOM_TEST_GO").unwrap());
        while !go.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let cache = CodeCache::of_process();
        // Each begins with another one.
        let mut images: Vec<(u64, String)> = (0..KERNELS)
            .map(|kernel| (kernel + number) % KERNELS)
            .map(|kernel| (kernel, blake3::hash(&cache.image(&plan(kernel + 3), ARCH).unwrap().bytes).to_string()))
            .collect();
        images.sort();
        let mut told = told(cache);
        told["images"] = json!(images);
        return tell(&told);
    }
    let folder = tempfile::tempdir().unwrap();
    let (cache, go) = (folder.path().join("cache"), folder.path().join("go"));
    let start = |number: u32| {
        let mut command = again(TEST, &number.to_string());
        command.env("ROWLOOM_CACHE_DIR", &cache).env("ROWLOOM_TEST_GO", &go).spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(start).collect();
    std::fs::write(&go, "").unwrap();
    let results: Vec<_> = children.into_iter().map(finish).collect();
    let expected: Vec<(u64, String)> =
        (0..KERNELS).map(|kernel| (kernel, blake3::hash(&reference(&plan(kernel + 3))).to_string())).collect();
    let mut compiled = 0;
    for (told, stderr) in &results {
        assert_eq!(told["images"], json!(expected));
        assert_eq!(told["compiled"].as_u64().unwrap() + told["disk_hits"].as_u64().unwrap(), KERNELS, "{told}");
        assert_eq!((&told["repairs"], &told["lock_timeouts"]), (&json!(0), &json!(0)), "{told}");
        assert_eq!(*stderr, [""; 0]);
        compiled += told["compiled"].as_u64().unwrap();
    }
    assert_eq!(compiled, KERNELS);
    assert_eq!(files(&cache, "code").len(), KERNELS as usize);
    assert_eq!(files(&cache, "locks").len(), 0);

    // One that comes later needs neither a compiler nor its library.
    let (told, _) = finish(start(2));
    assert_eq!((&told["disk_hits"], &told["compiled"]), (&json!(KERNELS), &json!(0)), "{told}");
    assert_eq!(told["nvrtc_is_loaded"], json!(false));
    assert_eq!(told["images"], json!(expected));
}

#[test]
fn eight_threads_compile_each_kernel_once() {
    let folder = tempfile::tempdir().unwrap();
    for cache in [cache(folder.path()), CodeCache::new(Settings::default())] {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let cache = &cache;
                scope.spawn(move || {
                    for kernel in 0..3 {
                        cache.image(&small((kernel + thread) % 3), ARCH).unwrap();
                    }
                });
            }
        });
        assert_eq!((cache.stats().compiled, cache.stats().misses), (3, 3));
        assert_eq!(cache.lookups().len(), 3);
    }
}

/// What a start from the cache costs without the driver: the share of the 5 ms to the first launch.
#[test]
fn a_start_from_the_cache_is_fast_and_loads_no_nvrtc() {
    const TEST: &str = "cold::a_start_from_the_cache_is_fast_and_loads_no_nvrtc";
    if role().is_some() {
        let start = Instant::now();
        let cache = CodeCache::of_process();
        cache.image(&plan(9), ARCH).unwrap();
        let mut told = told(cache);
        told["us"] = json!(start.elapsed().as_secs_f64() * 1e6);
        return tell(&told);
    }
    let folder = tempfile::tempdir().unwrap();
    let start = || finish(again(TEST, "start").env("ROWLOOM_CACHE_DIR", folder.path()).spawn().unwrap()).0;
    let cold = start();
    assert_eq!((&cold["compiled"], &cold["nvrtc_is_loaded"]), (&json!(1), &json!(true)), "{cold}");
    // The fastest of a few: other tests run at the same time.
    let warm: Vec<_> = (0..5).map(|_| start()).collect();
    for warm in &warm {
        assert_eq!((&warm["disk_hits"], &warm["nvrtc_is_loaded"]), (&json!(1), &json!(false)), "{warm}");
    }
    let fastest = warm.iter().map(|warm| warm["us"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    assert!(fastest < 5000.0, "{fastest} µs");
}

/// What is known of a compiler holds only as long as its file is the same.
#[test]
fn a_replaced_nvrtc_is_noticed() {
    const TEST: &str = "cold::a_replaced_nvrtc_is_noticed";
    if role().is_some() {
        let cache = CodeCache::of_process();
        cache.image(&small(1), ARCH).unwrap();
        return tell(&told(cache));
    }
    reference(&small(1));
    let library = Nvrtc::find().unwrap().file().expect("the system tells").to_owned();
    let folder = tempfile::tempdir().unwrap();
    // With what it loads itself, which lies beside it.
    for file in files(library.parent().unwrap(), "") {
        let name = file.file_name().unwrap();
        if name.to_string_lossy().starts_with("libnvrtc") {
            std::fs::copy(&file, folder.path().join(name)).unwrap();
        }
    }
    let copy = folder.path().join(library.file_name().unwrap());
    let cache = folder.path().join("cache");
    let start = || {
        let mut command = again(TEST, "start");
        finish(command.env("ROWLOOM_CACHE_DIR", &cache).env("ROWLOOM_NVRTC", &copy).spawn().unwrap()).0
    };
    assert_eq!(start()["compiled"], json!(1));
    assert_eq!(start()["nvrtc_is_loaded"], json!(false));
    let touched = |told: &Value| {
        assert_eq!((&told["nvrtc_is_loaded"], &told["disk_hits"]), (&json!(true), &json!(1)), "{told}");
        assert_eq!(start()["nvrtc_is_loaded"], json!(false));
    };
    let time = SystemTime::now() - Duration::from_secs(100);
    std::fs::File::options().write(true).open(&copy).unwrap().set_modified(time).unwrap();
    touched(&start());
    // What is known is an entry like any other.
    let known = files(&cache, "compilers");
    assert_eq!(known.len(), 1);
    std::fs::write(&known[0], "damaged").unwrap();
    touched(&start());
    // A library of another size is another compiler.
    let mut library = std::fs::File::options().append(true).open(&copy).unwrap();
    std::io::Write::write_all(&mut library, b"x").unwrap();
    assert_eq!(start()["compiled"], json!(1));
    assert_eq!(start()["nvrtc_is_loaded"], json!(false));
}
