//! NVRTC compiles every snapshot to a cubin, without spills, local memory or a
//! warning. Needs an NVRTC, but no GPU: `cargo xtask nvrtc` fetches one and
//! prints what `ROWLOOM_NVRTC` must be.

mod cases;

use std::sync::Mutex;

use rowloom::codegen::{Arch, Source};
use rowloom::{ImageFormat, Nvrtc};

fn compile(arch: Arch, sources: &[(String, Source)]) {
    let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"));
    let next = Mutex::new(sources.iter());
    let take = || next.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, source)) = take() {
                    check(nvrtc, name, source, arch);
                }
            });
        }
    });
}

fn check(nvrtc: &Nvrtc, name: &str, source: &Source, arch: Arch) {
    let compiled = nvrtc.compile_with(source, arch, &["--ptxas-options=-v"]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(compiled.format, ImageFormat::Cubin, "{name} for {arch}");
    let log = &compiled.log;
    assert!(!log.contains("warning"), "{name} for {arch}:\n{log}");
    let properties: Vec<&str> = log.lines().filter(|line| line.contains("stack frame")).collect();
    assert!(!properties.is_empty(), "{name} for {arch} tells nothing of its entries:\n{log}");
    for line in properties {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert!(line.contains(&format!(" {none}")), "{name} for {arch}: {log}");
    }
}

/// Every `step`th source, beginning with number `step / 2`.
fn some(step: usize) -> Vec<(String, Source)> {
    cases::sources().into_iter().skip(step / 2).step_by(step).collect()
}

#[test]
fn every_snapshot_for_sm_90() {
    compile(Arch::SM_90, &cases::sources());
}

#[test]
fn every_snapshot_for_sm_80() {
    compile(Arch(80), &cases::sources());
}

#[test]
fn outputs_per_position_under_every_schedule_for_sm_90() {
    compile(Arch::SM_90, &cases::position_candidates());
}

#[test]
fn plans_under_every_schedule_for_sm_90() {
    compile(Arch::SM_90, &cases::plan_candidates());
}

#[test]
fn some_plans_under_some_schedules_for_other_architectures() {
    for (turn, arch) in [80, 86, 89, 100, 120].into_iter().enumerate() {
        let some: Vec<_> = cases::plan_candidates().into_iter().skip(turn).step_by(9).collect();
        compile(Arch(arch), &some);
    }
}

#[test]
fn some_snapshots_for_other_architectures() {
    for arch in [86, 89, 100, 120] {
        compile(Arch(arch), &some(9));
    }
}
