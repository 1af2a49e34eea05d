//! Packs: code without a compiler.

use std::fs;
use std::path::Path;
use std::process::Command;

use rowloom_runtime::cache::{CodeCache, Pack, PackCode, PackWriter, pack_key};
use rowloom_runtime::{Error, Nvrtc};
use serde_json::{Value, json};

use crate::process::{again, finish, role, tell, told};
use crate::sources::{ARCH, plan, reference, small};

fn code(number: u64) -> PackCode {
    reference(&small(number));
    PackCode::compile(Nvrtc::find().unwrap(), &small(number), ARCH, format!("number {number}")).unwrap()
}

fn write_pack(folder: &Path, code: &[PackCode]) -> Result<Pack, Error> {
    PackWriter::open(folder)?.write(code)
}

/// A process that has a pack, no NVRTC, and a cache folder that is not there yet.
fn without_nvrtc(test: &str, pack: &Path, cache: &Path, jit: &str) -> Command {
    let mut command = again(test, "run");
    command.env("ROWLOOM_PACK", pack).env("ROWLOOM_CACHE_DIR", cache);
    command.env("ROWLOOM_JIT", jit).env("ROWLOOM_NVRTC", "/nowhere/libnvrtc.so");
    command
}

/// Gets three kernels and tells how: the bytes' hashes, or the error.
fn three() {
    let cache = CodeCache::of_process();
    let images: Vec<String> = (0..3)
        .map(|number| match cache.image(&small(number), ARCH) {
            Ok(image) => blake3::hash(&image.bytes).to_string(),
            Err(error) => error.to_string(),
        })
        .collect();
    let mut told = told(cache);
    told["images"] = json!(images);
    tell(&told);
}

fn hash(number: u64) -> Value {
    hash_of(&reference(&small(number)))
}

fn hash_of(bytes: &[u8]) -> Value {
    json!(blake3::hash(bytes).to_string())
}

#[test]
fn a_complete_pack_needs_no_nvrtc_and_nothing_is_written() {
    const TEST: &str = "pack::a_complete_pack_needs_no_nvrtc_and_nothing_is_written";
    if role().is_some() {
        return three();
    }
    let folder = tempfile::tempdir().unwrap();
    let (pack, cache) = (folder.path().join("pack"), folder.path().join("cache"));
    write_pack(&pack, &[code(0), code(1), code(2)]).unwrap();
    let before = listing(&pack);
    for jit in ["on", "off"] {
        let (told, stderr) = finish(without_nvrtc(TEST, &pack, &cache, jit).spawn().unwrap());
        assert_eq!(told["images"], json!([hash(0), hash(1), hash(2)]));
        assert_eq!((&told["pack_hits"], &told["misses"]), (&json!(3), &json!(0)), "{told}");
        assert_eq!((&told["nvrtc_is_loaded"], stderr.len()), (&json!(false), 0), "{stderr:?}");
        assert!(!cache.exists());
    }
    assert_eq!(listing(&pack), before);
}

/// Names, sizes and times of a folder's files.
fn listing(folder: &Path) -> Vec<(std::ffi::OsString, u64, std::time::SystemTime)> {
    let file = |entry: fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        (entry.file_name(), metadata.len(), metadata.modified().unwrap())
    };
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| file(entry.unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_miss_without_jit_names_kernel_architecture_and_key() {
    const TEST: &str = "pack::a_miss_without_jit_names_kernel_architecture_and_key";
    if role().is_some() {
        return three();
    }
    let folder = tempfile::tempdir().unwrap();
    let (pack, cache) = (folder.path().join("pack"), folder.path().join("cache"));
    write_pack(&pack, &[code(0), code(2)]).unwrap();
    let (told, _) = finish(without_nvrtc(TEST, &pack, &cache, "off").spawn().unwrap());
    let error = told["images"][1].as_str().unwrap();
    let key = pack_key(&small(1), ARCH).short();
    let start = format!("there is no code for small_1 on sm_90 (key {key}): not in the pack {}", pack.display());
    assert!(error.starts_with(&start), "{error}");
    assert!(error.ends_with("add it with `rowloom pack`, or unset ROWLOOM_JIT"), "{error}");
    assert_eq!((&told["images"][0], &told["images"][2]), (&hash(0), &hash(2)));
    assert_eq!((&told["misses"], &told["nvrtc_is_loaded"]), (&json!(1), &json!(false)));
    assert!(!cache.exists());
}

#[test]
fn damaged_packs_are_never_loaded() {
    const TEST: &str = "pack::damaged_packs_are_never_loaded";
    if role().is_some() {
        return three();
    }
    let folder = tempfile::tempdir().unwrap();
    let (pack, cache) = (folder.path().join("pack"), folder.path().join("cache"));
    write_pack(&pack, &[code(0), code(1), code(2)]).unwrap();
    let victim = pack.join(format!("{}.code", pack_key(&small(1), ARCH)));
    let mut bytes = fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&victim, &bytes).unwrap();
    let (told, stderr) = finish(without_nvrtc(TEST, &pack, &cache, "off").spawn().unwrap());
    assert!(told["images"][1].as_str().unwrap().starts_with("there is no code for small_1"), "{told}");
    assert_eq!(told["rejected"], json!(1));
    assert!(stderr.len() == 1 && stderr[0].contains("its checksum is wrong; make it anew"), "{stderr:?}");
    let (_, damaged) = Pack::open(&pack).unwrap().verify();
    assert_eq!((damaged.len(), &damaged[0].path), (1, &victim));
    // Where there is a compiler it helps out, and the pack stays as it is.
    let nvrtc = Nvrtc::find().unwrap().path();
    let mut command = without_nvrtc(TEST, &pack, &cache, "on");
    let (told, _) = finish(command.env("ROWLOOM_NVRTC", nvrtc).spawn().unwrap());
    assert_eq!(told["images"], json!([hash(0), hash(1), hash(2)]));
    assert_eq!((&told["pack_hits"], &told["compiled"]), (&json!(2), &json!(1)));
    assert_eq!(fs::read(&victim).unwrap(), bytes);
}

#[test]
fn what_is_no_pack_is_said() {
    const TEST: &str = "pack::what_is_no_pack_is_said";
    if role().is_some() {
        return three();
    }
    let folder = tempfile::tempdir().unwrap();
    let (pack, cache) = (folder.path().join("pack"), folder.path().join("cache"));
    let (told, stderr) = finish(without_nvrtc(TEST, &pack, &cache, "off").spawn().unwrap());
    assert!(stderr.len() == 1 && stderr[0].contains("no pack in"), "{stderr:?}");
    assert!(told["images"][0].as_str().unwrap().contains("manifest.json"), "{told}");
    fs::create_dir(&pack).unwrap();
    for (manifest, words) in [
        ("{", "manifest.json: EOF"),
        (r#"{"format": 2, "later": []}"#, "its format is 2, and this rowloom reads 1"),
        (r#"{"format": 1, "code": [], "more": 1}"#, "unknown field `more`"),
    ] {
        fs::write(pack.join("manifest.json"), manifest).unwrap();
        let error = Pack::open(&pack).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    fs::remove_file(pack.join("manifest.json")).unwrap();
    let pipe = Command::new("mkfifo").arg(pack.join("manifest.json")).status().unwrap();
    assert!(pipe.success());
    let (told, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(Pack::open(&pack).unwrap_err().to_string()));
    let error = answer.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for nobody");
    assert!(error.contains("manifest.json is no regular file"), "{error}");
}

#[test]
fn packs_grow_and_other_folders_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("deep/pack");
    write_pack(&pack, &[code(0)]).unwrap();
    write_pack(&pack, &[code(0), code(1)]).unwrap();
    let pack = Pack::open(pack).unwrap();
    let names: Vec<&str> = pack.manifest().code.iter().map(|code| &*code.source).collect();
    assert_eq!(names, ["small_0", "small_1"]);
    assert_eq!(pack.verify(), (2, vec![]));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), "kept").unwrap();
    let error = write_pack(&other, &[code(0)]).unwrap_err();
    assert!(matches!(&error, Error::PackWrite { folder, .. } if *folder == other), "{error}");
    assert!(error.to_string().ends_with("notes; name a new folder, an empty one or a pack"), "{error}");
    assert_eq!(other.read_dir().unwrap().count(), 1);
}

#[test]
fn what_a_killed_writer_has_left_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path();
    write_pack(pack, &[code(0), code(1)]).unwrap();
    // Killed while it wrote the second of its pieces: half a file, and no manifest.
    let second = pack.join(format!("{}.code", pack_key(&small(1), ARCH)));
    let bytes = fs::read(&second).unwrap();
    fs::remove_file(&second).unwrap();
    fs::remove_file(pack.join("manifest.json")).unwrap();
    fs::write(pack.join(".new-2f8Uxq"), &bytes[..bytes.len() / 2]).unwrap();
    fs::write(pack.join("manifest.lock"), "").unwrap();
    let written = write_pack(pack, &[code(0), code(1)]).unwrap();
    assert_eq!((written.manifest().code.len(), written.verify()), (2, (2, vec![])));
    let mut names: Vec<_> = pack.read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    names.retain(|name| !name.to_string_lossy().ends_with(".code"));
    assert_eq!(names, ["manifest.json"], "nothing else stays");
}

#[test]
fn packs_made_at_once_lose_nothing() {
    const WRITERS: u64 = 12;
    let code: Vec<PackCode> = (0..WRITERS).map(code).collect();
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("pack");
        let start = std::sync::Barrier::new(code.len());
        std::thread::scope(|scope| {
            for code in &code {
                let (pack, start) = (&pack, &start);
                scope.spawn(move || {
                    let writer = PackWriter::open(pack).unwrap();
                    start.wait();
                    writer.write(std::slice::from_ref(code)).unwrap();
                });
            }
        });
        let pack = Pack::open(pack).unwrap();
        assert_eq!((pack.manifest().code.len(), pack.verify()), (code.len(), (WRITERS, vec![])));
    }
}

#[test]
fn a_program_may_change_its_folder() {
    const TEST: &str = "pack::a_program_may_change_its_folder";
    if role().is_some() {
        let cache = CodeCache::of_process();
        std::env::set_current_dir("elsewhere").unwrap();
        let images: Vec<Value> =
            (0..2).map(|number| hash_of(&cache.image(&small(number), ARCH).unwrap().bytes)).collect();
        let mut told = told(cache);
        told["images"] = json!(images);
        return tell(&told);
    }
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    write_pack(&folder.path().join("pack"), &[code(0)]).unwrap();
    let mut command = again(TEST, "run");
    command.current_dir(folder.path()).env("ROWLOOM_PACK", "pack").env("ROWLOOM_CACHE_DIR", "cache");
    let (told, stderr) = finish(command.env("ROWLOOM_NVRTC", Nvrtc::find().unwrap().path()).spawn().unwrap());
    assert_eq!(told["images"], json!([hash(0), hash(1)]));
    assert_eq!((&told["pack_hits"], &told["compiled"], stderr.len()), (&json!(1), &json!(1), 0), "{told} {stderr:?}");
    assert!(folder.path().join("cache/code").exists());
    assert_eq!(elsewhere.read_dir().unwrap().count(), 0);
}

#[test]
fn packs_hold_machine_code_alone() {
    reference(&small(0));
    let newest = *Nvrtc::find().unwrap().architectures().last().unwrap();
    let unknown = rowloom_codegen::Arch(newest.0 + 1);
    let error = PackCode::compile(Nvrtc::find().unwrap(), &plan(9), unknown, String::new()).unwrap_err();
    assert!(error.to_string().contains("makes no machine code for"), "{error}");
    // A process compiles PTX in that case, and stores it under a key of its own.
    let folder = tempfile::tempdir().unwrap();
    let cache = crate::sources::cache(folder.path());
    let image = cache.image(&small(0), unknown).unwrap();
    assert_eq!(image.format, rowloom_runtime::ImageFormat::Ptx);
    assert_eq!(image.bytes.last(), Some(&0));
    let again = crate::sources::cache(folder.path()).image(&small(0), unknown).unwrap();
    assert_eq!((again.format, &again.bytes), (image.format, &image.bytes));
}
