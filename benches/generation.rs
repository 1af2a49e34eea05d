//! Host work before a launch, for every declared kernel: reading and verifying IR, deriving a
//! backward, generating sources. bf16, i64 indices, H = 5376, sm_90.

mod run;

use std::process::ExitCode;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion};
use rowloom::codegen::ir::{Kernel, RowId};
use rowloom::codegen::{DType, IntType, Spec, Verified, Wants, backward};
use rowloom::{Registered, registered, sources};
// Its kernels register themselves.
use rowloom_op_adaln as _;
use run::run;

const HIDDEN: u64 = 5376;

/// Rows of the H3 op's table; where they do not divide as declared, the next number that does.
const ROWS: u64 = 9;

/// Divides by all that is likely to be declared.
const MOST_ROWS: u64 = 2520;

fn main() -> ExitCode {
    run(Criterion::default(), |criterion| {
        registered().for_each(|registered| generation(criterion, registered));
        Ok(())
    })
}

/// The group of one kernel.
fn generation(criterion: &mut Criterion, registered: &Registered) {
    let forward = (registered.declaration)().forward();
    let text = forward.to_string();
    let mut group = criterion.benchmark_group(format!("generation of {}", registered.name));
    group.bench_function("read IR", |bench| bench.iter(|| Kernel::parse(&text)));
    let read = || Kernel::clone(forward);
    group.bench_function("verify", |bench| bench.iter_batched(read, Kernel::verify, BatchSize::SmallInput));
    sources_of(&mut group, "forward", forward);
    let wants = Wants::all(forward);
    if !wants.inputs().is_empty() {
        group.bench_function("derive the backward", |bench| bench.iter(|| backward(forward, &wants)));
        let backward = backward(forward, &wants);
        sources_of(&mut group, "backward", &backward);
        plan(&mut group, &backward);
    }
    group.finish();
}

/// The text of a kernel, in each mode that it has.
fn sources_of(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, kernel: &Verified) {
    let Some(spec) = spec(kernel) else {
        return left_out(kernel);
    };
    // What sums by row always has a plan.
    let modes: &[bool] = if kernel.sums() || kernel.rows.is_empty() { &[true] } else { &[true, false] };
    for &planned in modes {
        let spec = Spec { planned, ..spec.clone() };
        if let Err(error) = sources::kernel(kernel, &spec, None) {
            eprintln!("left out {name} of {}: {error}", kernel.name);
            continue;
        }
        let mode = if planned { "planned" } else { "checked" };
        group.bench_function(format!("{name}, {mode}"), |bench| {
            bench.iter(|| sources::kernel(kernel, &spec, None));
        });
    }
}

/// The text that builds the plan of the first row expression.
fn plan(group: &mut BenchmarkGroup<'_, WallTime>, kernel: &Verified) {
    if kernel.rows.is_empty() {
        return;
    }
    let Some(spec) = spec(kernel) else {
        return left_out(kernel);
    };
    group.bench_function("plan", |bench| {
        bench.iter(|| sources::plan(&sources::plan_shape(kernel, &spec, RowId(0)), None));
    });
}

/// The same number for every row count, so that all declared sizes are whole.
fn spec(kernel: &Verified) -> Option<Spec> {
    let of = |rows| Spec::contiguous(kernel, DType::Bf16, IntType::I64, &vec![rows; kernel.counts.len()], HIDDEN);
    (ROWS..=MOST_ROWS).map(of).find(|spec| spec.check(kernel).is_ok())
}

fn left_out(kernel: &Kernel) {
    eprintln!("left out sources of {}: up to {MOST_ROWS} rows none divide as it is declared", kernel.name);
}
