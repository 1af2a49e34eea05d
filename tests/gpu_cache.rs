//! On a GPU: code from NVRTC, from the cache folder and from a pack runs, gives
//! the same bytes, and only the first needs an NVRTC.

mod cases;

use std::path::Path;
use std::process::{Command, Stdio};

use cases::gpu::gpu;
use rowloom::cache::{CodeCache, PackCode, PackWriter};
use rowloom::codegen::{DType, IntType, SClass, Spec};
use rowloom::{Device, Nvrtc, Tensor, sources};
use rowloom_op_adaln::row_gather;
use serde_json::{Value, json};

const ROLE: &str = "ROWLOOM_TEST_ROLE";

/// Runs a kernel and tells what it gave and where its code came from.
#[expect(clippy::print_stdout, reason = "two processes talk")]
fn run() {
    let stream = Device::cuda(0).unwrap().stream().unwrap();
    let numbers: Vec<f32> = (0..9 * 8u8).map(f32::from).collect();
    let table = Tensor::from_slice(&stream, &numbers, 9, 8).unwrap();
    let row = Tensor::from_slice(&stream, &[8i64, 0, 4], 3, 1).unwrap();
    let inputs = row_gather::Inputs { table: table.view(), row: row.view() };
    let out = row_gather::forward(&stream, &inputs, None).unwrap().out.to_vec(&stream).unwrap();
    let origins: Vec<Value> = CodeCache::of_process().lookups().iter().map(|lookup| json!(lookup.origin)).collect();
    let loaded = std::fs::read_to_string("/proc/self/maps").unwrap().contains("libnvrtc");
    println!("\ntold {}", json!({ "out": out, "origins": origins, "nvrtc_is_loaded": loaded }));
}

/// The same in a process of its own.
fn again(cache: &Path, environment: &[(&str, &str)]) -> Value {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["every_origin_gives_the_same_bytes", "--exact", "--nocapture"]).env(ROLE, "run");
    command.env("ROWLOOM_CACHE_DIR", cache).env_remove("ROWLOOM_PACK").env_remove("ROWLOOM_JIT");
    let output = command.envs(environment.iter().copied()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("told ")).unwrap()).unwrap()
}

#[test]
fn every_origin_gives_the_same_bytes() {
    if std::env::var_os(ROLE).is_some() {
        return run();
    }
    let Some(device) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cache, pack) = (folder.path().join("cache"), folder.path().join("pack"));
    let expected: Vec<f32> = [8u8, 0, 4].iter().flat_map(|row| (0..8).map(move |at| f32::from(row * 8 + at))).collect();

    let compiled = again(&cache, &[]);
    assert_eq!(compiled, json!({ "out": expected, "origins": ["nvrtc"], "nvrtc_is_loaded": true }));
    let stored = again(&cache, &[]);
    assert_eq!(stored, json!({ "out": expected, "origins": ["disk"], "nvrtc_is_loaded": false }));

    let kernel = row_gather::declaration().forward();
    let mut spec = Spec::contiguous(kernel, DType::F32, IntType::I64, &[9], 8);
    (spec.planned, spec.s_class, spec.arch) = (false, SClass::OneBlock, device.arch().unwrap());
    let nvrtc = Nvrtc::find().unwrap();
    let compile = |source| PackCode::compile(nvrtc, source, spec.arch, "S = 3".to_owned()).unwrap();
    let code: Vec<PackCode> = sources::of_call(kernel, &spec).unwrap().iter().map(compile).collect();
    PackWriter::open(&pack).unwrap().write(&code).unwrap();
    let nowhere = folder.path().join("nowhere");
    let environment = [("ROWLOOM_PACK", pack.to_str().unwrap()), ("ROWLOOM_JIT", "off"), ("ROWLOOM_NVRTC", "/none")];
    let packed = again(&nowhere, &environment);
    assert_eq!(packed, json!({ "out": expected, "origins": ["pack"], "nvrtc_is_loaded": false }));
    assert!(!nowhere.exists(), "nothing is written");
}
