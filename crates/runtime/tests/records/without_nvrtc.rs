//! A pack with code and a record of it: nothing is compiled, and no NVRTC is there.

use std::path::Path;

use rowloom_codegen::{Choice, Subject};
use rowloom_runtime::cache::{CodeCache, Disk, PackCode, PackWriter, Settings};
use rowloom_runtime::tuning::{Found, Machine, Records};
use rowloom_runtime::{Nvrtc, driver_release};
use serde_json::json;

use crate::made::{another, backward, record, subject};
use crate::process::{again, finish, role, tell, told};

const S: u64 = 300;

fn nvrtc() -> &'static Nvrtc {
    Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"))
}

/// A GPU that is not there, and the compiler of this process's code.
fn gpu(cache: &CodeCache) -> Machine<'_> {
    let arch = rowloom_codegen::Arch::SM_90;
    Machine::new("NVIDIA H200", Some("580.159.04".to_owned()), arch, move |source| {
        cache.compiler_of(source, arch).map(Some)
    })
}

fn tuned() -> (Subject, Choice) {
    let subject = subject(&backward(), S);
    let winner = another(&subject);
    (subject, winner)
}

/// Looks for the record and gets the code of what is to run, as a launch does.
fn launch() {
    let (subject, winner) = tuned();
    let cache = CodeCache::of_process();
    let machine = gpu(cache);
    let found = Records::of_process().find(&subject, &machine, S);
    let (choice, why) = match found {
        Found::Record(record) => (record.winner, String::new()),
        Found::None => (subject.default_choice().unwrap(), String::new()),
        Found::Refused(refused) => (subject.default_choice().unwrap(), refused.why.to_string()),
    };
    let image = cache.image(&subject.generate(&choice).unwrap(), machine.arch);
    let mut told = told(cache);
    told["winner"] = json!(choice == winner);
    told["why"] = json!(why);
    told["hash"] = json!(image.map(|image| blake3::hash(&image.bytes).to_string()).map_err(|error| error.to_string()));
    tell(&told);
}

fn pack(folder: &Path, subject: &Subject, choice: Choice) {
    let source = subject.generate(&choice).unwrap();
    let code = PackCode::compile(nvrtc(), &source, rowloom_codegen::Arch::SM_90, String::new()).unwrap();
    PackWriter::open(folder).unwrap().write(&[code]).unwrap();
}

#[test]
fn a_pack_with_a_record_needs_no_nvrtc() {
    const TEST: &str = "without_nvrtc::a_pack_with_a_record_needs_no_nvrtc";
    if role().is_some() {
        return launch();
    }
    let (subject, winner) = tuned();
    let default = subject.default_choice().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (pack_folder, cache_folder) = (folder.path().join("pack"), folder.path().join("cache"));
    let run = |jit: &str| {
        let mut command = again(TEST, "run");
        command.env("ROWLOOM_PACK", &pack_folder).env("ROWLOOM_CACHE_DIR", &cache_folder);
        command.env("ROWLOOM_JIT", jit).env("ROWLOOM_NVRTC", "/nowhere/libnvrtc.so");
        finish(command.spawn().unwrap())
    };
    let hash = |choice| {
        let source = subject.generate(choice).unwrap();
        json!({"Ok": blake3::hash(&nvrtc().compile(&source, rowloom_codegen::Arch::SM_90).unwrap().image).to_string()})
    };
    // The record alone, and the default's code: what was compiled for the default runs.
    pack(&pack_folder, &subject, default);
    let cache = CodeCache::over(None, None::<Disk>, true);
    let found = record(&subject, S, winner, &gpu(&cache));
    assert_eq!(found.provenance.nvrtc.as_deref(), Some(&*nvrtc().compiler().to_string()));
    Records::over(None, Some(&pack_folder)).add(&found).unwrap();
    for (jit, word) in [("on", "no NVRTC"), ("off", "ROWLOOM_JIT=off forbids")] {
        let (told, stderr) = run(jit);
        assert_eq!((&told["winner"], &told["hash"], stderr.len()), (&json!(false), &hash(&default), 0), "{stderr:?}");
        let why = told["why"].as_str().unwrap();
        assert!(why.starts_with("its code cannot be had: ") && why.contains(word), "{why}");
    }
    // With its code.
    pack(&pack_folder, &subject, winner);
    for jit in ["on", "off"] {
        let (told, stderr) = run(jit);
        assert_eq!((&told["winner"], &told["why"], stderr.len()), (&json!(true), &json!(""), 0), "{stderr:?}");
        assert_eq!(told["hash"], hash(&winner));
        assert_eq!((&told["pack_hits"], &told["misses"], &told["compiled"]), (&json!(1), &json!(0), &json!(0)));
        assert_eq!(told["nvrtc_is_loaded"], json!(false));
        assert!(!cache_folder.exists(), "nothing is written");
    }
    // A record of another NVRTC than the pack's.
    let mut old = found;
    old.provenance.nvrtc = Some("12.4".to_owned());
    Records::over(None, Some(&pack_folder)).add(&old).unwrap();
    let (told, _) = run("on");
    let version = nvrtc().compiler();
    assert_eq!(told["why"], json!(format!("it was made with NVRTC 12.4, and this is {version}")));
    assert_eq!(told["hash"], hash(&default));
}

/// The cache's code is that of the NVRTC that would be loaded, which is known without loading it.
#[test]
fn the_compiler_of_the_cache_is_remembered() {
    const TEST: &str = "without_nvrtc::the_compiler_of_the_cache_is_remembered";
    let (subject, winner) = tuned();
    if role().is_some() {
        return launch();
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = CodeCache::new(Settings { folder: Some(folder.path().to_owned()), ..Settings::default() });
    nvrtc();
    let found = record(&subject, S, winner, &gpu(&cache));
    Records::over(None, Some(folder.path())).add(&found).unwrap();
    cache.image(&subject.generate(&winner).unwrap(), rowloom_codegen::Arch::SM_90).unwrap();
    for jit in ["on", "off"] {
        let mut command = again(TEST, "run");
        let (told, stderr) =
            finish(command.env("ROWLOOM_CACHE_DIR", folder.path()).env("ROWLOOM_JIT", jit).spawn().unwrap());
        assert_eq!((&told["winner"], &told["why"], stderr.len()), (&json!(true), &json!(""), 0), "{stderr:?}");
        assert_eq!(
            (&told["disk_hits"], &told["compiled"], &told["nvrtc_is_loaded"]),
            (&json!(1), &json!(0), &json!(false))
        );
    }
}

/// Where the system does not tell the driver's release, the version of CUDA stands for it.
#[test]
fn a_gpu_is_known_without_opening_it() {
    let gpu = rowloom_runtime::Gpu {
        ordinal: 0,
        product: "NVIDIA H200".to_owned(),
        arch: rowloom_codegen::Arch::SM_90,
        memory_bytes: 0,
    };
    let machine = Machine::of_gpu(&gpu, "13.0");
    let driver = driver_release().unwrap_or_else(|| "CUDA 13.0".to_owned());
    assert_eq!((&*machine.product, machine.driver, machine.arch), ("NVIDIA H200", Some(driver), gpu.arch));
}
