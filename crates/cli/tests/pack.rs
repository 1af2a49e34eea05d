//! `rowloom pack` makes what calls ask for: compared by the hashes of the sources
//! that calls on an emulated device load. Needs an NVRTC and g++, no GPU.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use half::bf16;
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, DType, Verified, Wants};
use rowloom_op_adaln::adaln_row_gather;
use rowloom_runtime::cache::Pack;
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Call, Device, RowPlan, Stream, allocate_outputs, plans, run};

fn rowloom(arguments: &[&str]) -> Output {
    // No cache: nobody's records of tuning.
    Command::new(cargo_bin!("rowloom"))
        .args(arguments)
        .env("ROWLOOM_CACHE_DIR", "")
        .output()
        .expect("the command starts")
}

fn packed(kernel: &str, out: &Path, more: &[&str]) -> Pack {
    let out = out.to_str().expect("a plain path");
    let output =
        rowloom(&[&["pack", kernel, "--dtype", "bf16", "--rows", "9", "--arch", "sm_90", "--out", out], more].concat());
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{error}\n`cargo xtask nvrtc` fetches an NVRTC");
    assert_eq!(error, "");
    Pack::open(out).expect("a pack")
}

fn hashes(pack: &Pack) -> HashSet<String> {
    pack.manifest().code.iter().map(|code| code.source_hash.clone()).collect()
}

const HIDDEN: u64 = 8;

/// Runs one kernel of the op as a user may: with plans, and without.
fn call(stream: &Stream, kernel: &Verified, positions: u64, gradient: Option<DType>) {
    let tensor = |rows: u64, columns: u64| {
        AnyTensor::from_slice(stream, &vec![bf16::ONE; (rows * columns) as usize], rows, columns).expect("memory")
    };
    let index = AnyTensor::from_slice(stream, &vec![0i64; positions as usize], positions, 1).expect("memory");
    let (table, rows) = (tensor(9, 6 * HIDDEN), tensor(positions, HIDDEN));
    let inputs: Vec<Vec<AnyView<'_>>> = kernel
        .inputs
        .iter()
        .map(|input| match &*input.name {
            "table" => vec![table.view()],
            "timestep" | "modality" => vec![index.view()],
            _ => vec![rows.view(); input.count as usize],
        })
        .collect();
    let counts: &[(&str, u64)] = if kernel.inputs[0].name == "table" { &[] } else { &[("R", 9)] };
    let mut outputs = allocate_outputs(stream, kernel, &inputs, counts, gradient).expect("memory");
    let plans = plans(stream, kernel, &inputs, counts).expect("plans");
    let plans: Vec<&RowPlan> = plans.iter().collect();
    for plans in [None, Some(&plans[..])] {
        let mut views: Vec<Vec<AnyViewMut<'_>>> =
            outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
        let call = Call { inputs: &inputs, outputs: &mut views, plans, schedule: None, workspace: None };
        run(stream, kernel, call).expect("it runs");
    }
}

/// What calls of these S load on an emulated device.
fn loaded(positions: &[u64], gradient: Option<DType>) -> HashSet<String> {
    let device = Device::emulated(1).expect("g++");
    let stream = device.stream().expect("a stream");
    let declared = adaln_row_gather::declaration();
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let order = Order { accumulate, ..declared.forward().order };
        let declaration = declared.with_order(order).expect("an order");
        for &positions in positions {
            call(&stream, declaration.forward(), positions, None);
            let backward = declaration.backward(&Wants::all(declaration.forward()));
            call(&stream, &backward, positions, gradient);
        }
    }
    let row = AnyTensor::from_slice(&stream, &[8i64], 1, 1).expect("memory");
    RowPlan::new(&stream, row.view(), 9).expect("a plan").repeat(&stream, 2).expect("a batch");
    let hash = |hash: [u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect();
    device.loaded_sources().into_iter().map(hash).collect()
}

#[test]
fn a_pack_holds_what_calls_load_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("pack");
    let pack = packed("adaln_row_gather", &out, &["--hidden", "8"]);
    // One block of positions a row, short, long.
    let loaded_by_calls = loaded(&[3, 300, 16385], None);
    assert_eq!(hashes(&pack), loaded_by_calls);
    assert_eq!(pack.verify(), (loaded_by_calls.len() as u64, vec![]));
    // Gradients of another type are more code, and the rest stays.
    let more = packed("adaln_row_gather", &out, &["--hidden", "8", "--gradient", "f32", "--positions", "300"]);
    let expected: HashSet<String> = loaded(&[300], Some(DType::F32)).union(&hashes(&pack)).cloned().collect();
    assert_eq!(hashes(&more), expected);
    assert!(expected.len() > loaded_by_calls.len());
}

#[test]
fn requests_that_make_no_sense_write_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("pack");
    let pack = |more: &[&'static str]| {
        let out = out.to_str().expect("a plain path");
        let output = rowloom(&[&["pack", "row_gather", "--dtype", "f32", "--out", out], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    for (more, words) in [
        (&["--rows", "9"][..], "--arch <ARCH>"),
        (&["--rows", "0", "--arch", "sm_90"], "R is 0; it must be at least 1"),
        (&["--rows", "9", "--arch", "90"], "`90` is no architecture"),
        (&["--rows", "N=9", "--arch", "sm_90"], "has no row count `N`"),
    ] {
        let (code, error) = pack(more);
        assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let (code, error) = pack(&["--rows", "9", "--arch", "sm_999"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("makes no machine code for sm_999"), "{error}");
    assert!(!out.exists());
    // A folder of something else is refused before anything is compiled.
    std::fs::create_dir(&out).expect("a folder");
    std::fs::write(out.join("notes"), "kept").expect("written");
    let (code, error) = pack(&["--rows", "9", "--arch", "sm_90"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("it holds something else, notes"), "{error}");
    assert_eq!(out.read_dir().expect("a folder").count(), 1);
}
