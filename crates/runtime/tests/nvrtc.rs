//! NVRTC: found, and never a panic. Needs an NVRTC; `cargo xtask nvrtc` fetches one
//! and prints what `ROWLOOM_NVRTC` must be.

use std::path::Path;

use rowloom_codegen::cuda::{self, PlanShape, Term};
use rowloom_codegen::{Arch, DType, IntType, Kernel, Schedule, Source, Spec};
use rowloom_runtime::{Device, Error, ImageFormat, Nvrtc, sources};

fn nvrtc() -> &'static Nvrtc {
    Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"))
}

fn plan() -> Source {
    let term = Term { ty: IntType::I64, factor: 1, bound: 9, pad: None };
    sources::plan(&PlanShape { terms: vec![term], offset: 0, rows: 9, block: 256 }, None).unwrap()
}

#[test]
fn a_known_architecture_gets_a_cubin() {
    assert!(nvrtc().architectures().contains(&Arch::SM_90));
    let compiled = nvrtc().compile(&plan(), Arch::SM_90).unwrap();
    assert_eq!(compiled.format, ImageFormat::Cubin);
    assert_eq!(compiled.image[..4], *b"\x7FELF");
    assert_eq!(compiled.log, "");
}

#[test]
fn an_unknown_architecture_gets_ptx_of_the_newest_below() {
    let newest = *nvrtc().architectures().last().unwrap();
    let compiled = nvrtc().compile(&plan(), Arch(newest.0 + 1)).unwrap();
    assert_eq!(compiled.format, ImageFormat::Ptx);
    let text = String::from_utf8(compiled.image).unwrap();
    assert!(text.contains(&format!(".target sm_{}", newest.0)), "{text}");
    let error = nvrtc().compile(&plan(), Arch(20)).unwrap_err();
    assert!(error.to_string().ends_with("makes no code for sm_20"), "{error}");
}

#[test]
fn the_log_tells_registers_and_spills_every_time() {
    for _ in 0..2 {
        let compiled = nvrtc().compile_with(&plan(), Arch::SM_90, &["--ptxas-options=-v"]).unwrap();
        let spills: Vec<&str> = compiled.log.lines().filter(|line| line.contains("spill stores")).collect();
        // Helpers that are functions in the text are inlined: only entries are left.
        assert!(spills.len() >= plan().entries().count() - 1, "{}", compiled.log);
        assert!(
            spills.iter().all(|line| line.contains(" 0 bytes spill stores, 0 bytes spill loads")),
            "{}",
            compiled.log
        );
    }
}

#[test]
fn kernels_compile_without_spills() {
    let text = std::fs::read_to_string("../codegen/tests/kernels/adaln_row_gather.txt").unwrap();
    let forward = Kernel::parse(&text).unwrap().verify().unwrap();
    let backward = rowloom_codegen::backward(&forward, &rowloom_codegen::Wants::all(&forward));
    for kernel in [&forward, &backward] {
        let spec = Spec::contiguous(kernel, DType::Bf16, IntType::I64, &[9], 5376);
        let schedule = Schedule::default_for(kernel, &spec).unwrap();
        let source = cuda::generate(kernel, &spec, &schedule).unwrap();
        let compiled = nvrtc().compile_with(&source, Arch::SM_90, &["--ptxas-options=-v"]).unwrap();
        assert!(compiled.log.contains(" 0 bytes spill stores"), "{}", compiled.log);
        assert!(!compiled.log.lines().any(|line| line.contains("spill") && !line.contains(" 0 bytes spill")));
    }
}

#[test]
fn refused_source_shows_its_log_line_by_line() {
    let source = Source { body: "extern \"C\" __global__ void bad() {\n  undeclared = 1;\n}\n".to_owned(), ..plan() };
    let error = nvrtc().compile(&source, Arch::SM_90).unwrap_err();
    assert!(matches!(&error, Error::Compile { source_name, .. } if source_name == "plan.cu"));
    let message = error.to_string();
    assert!(message.starts_with("NVRTC refused plan.cu:\n"), "{message}");
    assert!(message.contains("identifier \"undeclared\" is undefined"), "{message}");
    assert!(message.lines().count() > 3 && !message.contains("\\n"), "{message}");
}

#[test]
fn unknown_options_are_named() {
    let error = nvrtc().compile_with(&plan(), Arch::SM_90, &["--no-such-option"]).unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[test]
fn a_file_that_is_no_nvrtc_is_named_with_its_reason() {
    let missing = Nvrtc::load(Path::new("no/such/libnvrtc.so")).unwrap_err().to_string();
    assert!(
        missing.starts_with("no NVRTC: install ") && missing.ends_with("; looked for no/such/libnvrtc.so"),
        "{missing}"
    );
    // Many places are counted: what to do stands before them.
    let many = Error::NoNvrtc { searched: vec!["libnvrtc.so".to_owned(); 26] }.to_string();
    assert!(many.starts_with("no NVRTC: install ") && many.contains("cargo xtask nvrtc"), "{many}");
    assert!(many.ends_with("; looked in 26 places: `rowloom doctor` lists them"), "{many}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libnvrtc.so");
    std::fs::write(&file, "no library").unwrap();
    let invalid = Nvrtc::load(&file).unwrap_err().to_string();
    assert!(invalid.contains("libnvrtc.so ("), "{invalid}");
}

#[test]
fn a_machine_without_a_gpu_gets_an_error() {
    // On a machine with one, that there is no thousandth.
    match Device::cuda(999) {
        Err(
            error @ (Error::NoDriver { .. } | Error::NoDevice { .. } | Error::Driver { .. } | Error::OldDriver { .. }),
        ) => {
            assert!(!error.to_string().is_empty());
        }
        Err(other) => panic!("{other}"),
        Ok(device) => panic!("{device}"),
    }
    assert!(
        ["cuda:x", "gpu", "cuda:-1", ""]
            .iter()
            .all(|word| matches!(word.parse::<Device>(), Err(Error::UnknownDevice(_))))
    );
    assert_eq!("cpu".parse::<Device>().unwrap(), Device::cpu());
}
