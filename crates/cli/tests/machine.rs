//! `rowloom doctor` and `rowloom cache`, whose words depend on the environment.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use rowloom_codegen::cuda::{PlanShape, Term};
use rowloom_codegen::{Arch, IntType};
use rowloom_runtime::cache::{CodeCache, Settings};
use rowloom_runtime::sources;

/// The command with the given environment and nothing of ours besides: exit code, output, error.
fn rowloom(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(cargo_bin!("rowloom"));
    for name in [
        "ROWLOOM_PACK",
        "ROWLOOM_JIT",
        "ROWLOOM_TUNE",
        "ROWLOOM_CACHE_DIR",
        "ROWLOOM_CACHE_BYTES",
        "ROWLOOM_REQUIRE_GPU",
        "CXX",
    ] {
        command.env_remove(name);
    }
    let output = command.args(arguments).envs(environment.iter().copied()).output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

fn fill(folder: &Path) {
    let term = Term { ty: IntType::I64, factor: 1, bound: 9, pad: None };
    let source = sources::plan(&PlanShape { terms: vec![term], offset: 0, rows: 9, block: 256 }, None).unwrap();
    let cache = CodeCache::new(Settings { folder: Some(folder.to_owned()), ..Settings::default() });
    cache.image(&source, Arch::SM_90).unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"));
}

#[test]
fn help_has_examples() {
    for command in ["doctor", "cache", "pack", "tune"] {
        let (code, help, _) = rowloom(&[command, "--help"], &[]);
        assert_eq!(code, Some(0));
        assert!(help.contains(&format!("Examples:\n  rowloom {command}")), "{help}");
    }
}

#[test]
fn the_cache_is_counted_checked_and_cleared() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("cache");
    let name = folder.to_str().expect("a plain path");
    let environment = [("ROWLOOM_CACHE_DIR", name)];
    let cache = |action| rowloom(&["cache", action, "--json"], &environment);
    let (code, stats, _) = cache("stats");
    assert_eq!((code, &json(&stats)["entries"]), (Some(0), &0.into()));
    assert!(!folder.exists(), "looking makes nothing");
    fill(&folder);
    let stats = json(&cache("stats").1);
    assert_eq!((&stats["entries"], &stats["folder"]), (&1.into(), &name.into()));
    let target = stats["by_target"].as_object().expect("a map").keys().next().expect("one");
    assert!(target.starts_with("sm_90, NVRTC "), "{target}");
    assert!(rowloom(&["cache", "stats"], &environment).1.contains("  1 pieces of code, "));
    let (code, verified, _) = cache("verify");
    // The code, and what is known of its compiler.
    assert_eq!((code, &json(&verified)["whole"]), (Some(0), &2.into()));
    let entry = folder.join("code").read_dir().expect("a folder").next().expect("one").expect("one").path();
    let bytes = std::fs::read(&entry).expect("an entry");
    std::fs::write(&entry, &bytes[..bytes.len() - 1]).expect("written");
    let (code, verified, error) = cache("verify");
    assert_eq!((code, &json(&verified)["damaged"][0]["path"]), (Some(1), &entry.to_str().into()));
    assert_eq!(error, "error: 1 of 2 entries are damaged; each is replaced when it is next needed\n");
    std::fs::create_dir(folder.join("searches")).expect("a folder");
    std::fs::write(folder.join("searches/0.search"), "{}").expect("written");
    assert_eq!(json(&cache("stats").1)["searches"], 1);
    assert!(rowloom(&["cache", "stats"], &environment).1.contains("  1 searches for schedules that were interrupted"));
    let (code, cleared, _) = cache("clear");
    assert_eq!((code, &json(&cleared)["files"]), (Some(0), &3.into()));
    assert!(!folder.exists());
    let off = rowloom(&["cache", "stats"], &[("ROWLOOM_CACHE_DIR", "")]);
    assert_eq!(off.0, Some(1));
    assert!(off.2.contains("the cache is turned off"), "{}", off.2);
    let file = home.path().join("file");
    std::fs::write(&file, "kept").expect("written");
    let below = file.join("below");
    let (file, below) = (file.to_str().expect("a plain path"), below.to_str().expect("a plain path"));
    for action in ["stats", "verify", "clear"] {
        for (folder, words) in [
            (file, "file is a file, and no folder"),
            ("/dev/null", "/dev/null is a device, a pipe or a socket, and no folder"),
            (below, "not a directory"),
        ] {
            let (code, output, error) = rowloom(&["cache", action], &[("ROWLOOM_CACHE_DIR", folder)]);
            assert_eq!((code, &*output), (Some(1), ""), "{action} {folder}: {error}");
            assert!(error.starts_with("error: cannot use the cache in ") && error.contains(words), "{error}");
        }
    }
    assert_eq!(std::fs::read_to_string(file).expect("a file"), "kept");
    let misspelt = rowloom(&["cache", "stats"], &[("ROWLOOM_CACHE_BYTES", "many")]);
    assert_eq!(misspelt.0, Some(2));
}

#[test]
fn doctor_says_what_is_there() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("cache");
    let environment = [("ROWLOOM_CACHE_DIR", folder.to_str().expect("a plain path"))];
    let (code, text, error) = rowloom(&["doctor"], &environment);
    assert_eq!((code, &*error), (Some(0), ""));
    for word in ["rowloom ", "CPU ", "GPU ", "NVRTC ", "cache ", "pack ", "tuning ", "emulation ", "environment "] {
        assert!(text.lines().any(|line| line.starts_with(word)), "{word}: {text}");
    }
    let found = json(&rowloom(&["doctor", "--json"], &environment).1);
    assert!(found["cpu"]["threads"].as_u64() > Some(0));
    assert_eq!((&found["cache"]["writable"], &found["jit"]), (&true.into(), &true.into()));
    assert_eq!(found["broken"], serde_json::json!([]));
    // A GPU runs something, or it is said why not.
    assert!(found["gpu_runs"].is_string() || found["gpu_runs"]["missing"].is_string(), "{found}");
    assert!(!folder.exists(), "looking makes nothing");
}

#[test]
fn doctor_fails_for_what_the_environment_asks_in_vain() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("file");
    std::fs::write(&file, "").expect("written");
    let below = file.join("below");
    let (file, below) = (file.to_str().expect("a plain path"), below.to_str().expect("a plain path"));
    for (name, value, words) in [
        ("ROWLOOM_NVRTC", file, "ROWLOOM_NVRTC is set, but there is no NVRTC: looked for"),
        ("ROWLOOM_PACK", below, "ROWLOOM_PACK is set, but there is no pack in"),
        ("ROWLOOM_CACHE_DIR", below, "is of no use: not a directory"),
        ("ROWLOOM_CACHE_DIR", file, "is a file, and no folder"),
        ("ROWLOOM_CACHE_BYTES", "1GB", "ROWLOOM_CACHE_BYTES is `1GB`; it must be a number of bytes"),
        ("ROWLOOM_JIT", "no", "ROWLOOM_JIT is `no`; it must be on or off"),
        ("ROWLOOM_TUNE", "no", "ROWLOOM_TUNE is `no`; it must be off or cached"),
        ("CXX", "/no/such/compiler", "CXX is set, but `/no/such/compiler` does not start"),
    ] {
        let (code, text, error) = rowloom(&["doctor"], &[(name, value)]);
        assert_eq!((code, error.lines().count()), (Some(1), 1), "{name}: {error}");
        assert!(error.contains(words), "{name}: {error}");
        assert!(text.contains(&format!("{name}={value}")), "{text}");
    }
}

#[test]
fn without_an_nvrtc_the_advice_comes_first_and_doctor_lists_the_places() {
    let home = tempfile::tempdir().expect("a folder");
    // Toolkits that are not there, as many as there are variables for them.
    let missing = home.path().join("toolkit");
    let missing = missing.to_str().expect("a plain path");
    let environment = [("ROWLOOM_NVRTC", ""), ("CUDA_HOME", missing), ("CUDA_PATH", missing)];
    let out = home.path().join("out");
    let out = out.to_str().expect("a plain path");
    let size = ["--dtype", "bf16", "--rows", "9", "--arch", "sm_90", "--out", out];
    let emit = [&["emit", "row_gather", "--format", "cubin"], &size[..]].concat();
    let (code, _, error) = rowloom(&emit, &environment);
    let (_, page, _) = rowloom(&["doctor"], &environment);
    // The last thing on the page, below what a reader is after.
    let places = page.lines().skip_while(|line| !line.starts_with("looked for ")).count();
    if code == Some(0) {
        assert_eq!(places, 0, "{page}");
        eprintln!("skipped: an NVRTC is installed where everybody looks");
        return;
    }
    let (_, _, pack) = rowloom(&[&["pack", "row_gather"], &size[..]].concat(), &environment);
    for error in [error, pack] {
        assert!(
            error.starts_with("error: no NVRTC: install the CUDA toolkit or the Python wheel nvidia-cuda-nvrtc"),
            "{error}"
        );
        assert!(error.ends_with(&format!("; looked in {places} places: `rowloom doctor` lists them\n")), "{error}");
    }
    assert!(page.contains(&format!(" {missing}/lib64/libnvrtc.so\n")), "{page}");
    assert!(page.contains(&format!("the {places} places where it was looked for stand at the end\n")), "{page}");
    let (above, _) = page.split_once("\nlooked for ").expect("the places");
    assert!(above.contains("\nemulation ") && above.contains("\nenvironment "), "{page}");
    assert!(above.contains("a Python environment that is active is looked in"), "{page}");
}
