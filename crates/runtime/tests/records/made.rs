//! Records as a search makes them, of a small kernel.

use std::sync::Arc;

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::ir::{Order, RowId};
use rowloom_codegen::{Arch, Choice, DType, IntType, SClass, Source, Spec, Subject, Verified, Wants};
use rowloom_runtime::tuning::{For, Machine, Outcome, Record, Trial};
use rowloom_runtime::{Declaration, Error, sources};

pub const ADALN: &str = include_str!("../kernels/adaln.ir");

pub const HIDDEN: u64 = 16;

pub fn declared() -> Declaration {
    Declaration::from_ir(ADALN).unwrap()
}

pub fn backward() -> Arc<Verified> {
    let declared = declared();
    declared.backward(&Wants::all(declared.forward()))
}

/// Its Spec for R = 9 at `positions`, planned.
pub fn spec(kernel: &Verified, positions: u64) -> Spec {
    let mut spec = Spec::contiguous(kernel, DType::Bf16, IntType::I64, &[9], HIDDEN);
    spec.s_class = SClass::of(positions, kernel.order.block);
    spec
}

pub fn subject(kernel: &Verified, positions: u64) -> Subject {
    Subject::Kernel { kernel: kernel.clone(), spec: spec(kernel, positions) }
}

/// The same sums in another order, which is another kernel.
pub fn other_order(block: u32) -> Declaration {
    let declared = declared();
    declared.with_order(Order { block, ..declared.forward().order }).unwrap()
}

pub fn plan_shape() -> PlanShape {
    let declared = declared();
    sources::plan_shape(declared.forward(), &spec(declared.forward(), 100), RowId(0))
}

/// A legal choice, and not the default where there is another.
pub fn another(subject: &Subject) -> Choice {
    let default = subject.default_choice().unwrap();
    let legal = |choice: &Choice| subject.generate(choice).is_ok();
    subject.space().into_iter().rev().find(|choice| *choice != default && legal(choice)).unwrap_or(default)
}

/// A GPU that is not there.
pub fn h200() -> Machine<'static> {
    machine("NVIDIA H200", "580.159.04", (13, 5))
}

pub fn machine(product: &str, driver: &str, nvrtc: (u32, u32)) -> Machine<'static> {
    let compiler = move |_: &Source| Ok::<_, Error>(Some(nvrtc));
    Machine::new(product, Some(driver.to_owned()), Arch::SM_90, compiler)
}

/// A search that found `winner`.
pub fn record(subject: &Subject, positions: u64, winner: Choice, machine: &Machine<'_>) -> Record {
    let default = subject.default_choice().unwrap();
    let timed = |schedule, us| Trial { schedule, outcome: Outcome::Timed { us, rounds: 30, bit_equal: true } };
    let illegal = Outcome::Illegal { illegal: "threads = 7 is not legal".to_owned() };
    Record {
        key: For::of(subject, machine.arch, positions),
        provenance: machine.provenance(&subject.generate(&winner).unwrap()).unwrap(),
        positions,
        default,
        winner,
        default_us: 503.123_456_789_012_3,
        winner_us: 480.1,
        seconds: 7.0 / 3.0,
        date: "2026-11-30".to_owned(),
        candidates: vec![
            timed(default, 503.1),
            timed(winner, 480.1),
            Trial { schedule: default, outcome: illegal },
            Trial { schedule: default, outcome: Outcome::Failed { failed: "it did not end".to_owned() } },
        ],
    }
}
