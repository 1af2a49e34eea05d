//! Host time of a planned launch. On `host` everything between a call and the driver:
//! the device leaves its work out, so a figure is rowloom's own part. On `cuda:0`, where
//! there is one, with the driver's.

mod device;
mod run;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::Criterion;
use half::bf16;
use rowloom::{Device, Error, RowPlan, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather::{
    Cotangents, GradientsMut, Inputs, OutputsMut, backward_into, backward_workspace_bytes, forward_into,
};
use rowloom_runtime::probe::Probe;
use run::run;

const POSITIONS: u64 = 600;
const HIDDEN: u64 = 64;
const ROWS: u64 = 9;

/// Launches between two waits: a GPU's queue holds more.
const QUEUED: u64 = 100;

fn main() -> ExitCode {
    run(Criterion::default(), launch)
}

fn launch(criterion: &mut Criterion) -> Result<(), Error> {
    match Probe::new() {
        Ok(probe) => on(criterion, "launch on the host alone", probe.device(), || probe.leave_work_out())?,
        Err(error) => eprintln!("left out the host alone: {error}"),
    }
    match device::gpu()? {
        Some(device) => on(criterion, "launch on cuda:0", &device, || {}),
        None => Ok(()),
    }
}

fn on(criterion: &mut Criterion, name: &str, device: &Device, prepared: impl FnOnce()) -> Result<(), Error> {
    let stream = device.stream()?;
    let table = Tensor::<bf16>::zeros(&stream, ROWS, 6 * HIDDEN)?;
    let index: Vec<i64> = (0..POSITIONS as i64).map(|at| at % 3).collect();
    let timestep = Tensor::from_slice(&stream, &index, POSITIONS, 1)?;
    let modality = Tensor::from_slice(&stream, &index, POSITIONS, 1)?;
    let inputs = Inputs { table: table.view(), timestep: timestep.view(), modality: modality.view() };
    let rows = [(timestep.view().any(), 3, 3), (modality.view().any(), 1, 3)];
    let plan = RowPlan::affine(&stream, &rows)?;
    let zeros = || Tensor::<bf16>::zeros(&stream, POSITIONS, HIDDEN);
    let mut outputs = [zeros()?, zeros()?, zeros()?, zeros()?, zeros()?, zeros()?];
    let cotangents = [zeros()?, zeros()?, zeros()?, zeros()?, zeros()?, zeros()?];
    let cotangents = Cotangents { out: cotangents.each_ref().map(Tensor::view) };
    let mut gradient = Tensor::<bf16>::zeros(&stream, ROWS, 6 * HIDDEN)?;
    let wanted = GradientsMut { table: Some(gradient.view_mut()) };
    let bytes = backward_workspace_bytes(&stream, &inputs, &cotangents, &plan, wanted)?;
    let mut workspace = Workspace::with_bytes(&stream, bytes)?;

    let mut forward = |workspace: &mut Workspace| {
        let out = outputs.each_mut().map(Tensor::view_mut);
        forward_into(&stream, &inputs, &plan, OutputsMut { out }, workspace)
    };
    forward(&mut workspace)?;
    let graph = stream.capture(|| forward(&mut workspace))?;
    prepared();

    // Waits between a full queue and the next are not the host's work.
    let timed = |iterations: u64, call: &mut dyn FnMut()| {
        let mut busy = Duration::ZERO;
        for first in (0..iterations).step_by(QUEUED as usize) {
            let start = Instant::now();
            for _ in first..(first + QUEUED).min(iterations) {
                call();
            }
            busy += start.elapsed();
            stream.synchronize().expect("it runs");
        }
        busy
    };
    let mut group = criterion.benchmark_group(name);
    group.bench_function("forward_into, planned", |bench| {
        bench.iter_custom(|iterations| timed(iterations, &mut || forward(&mut workspace).expect("it fits")));
    });
    group.bench_function("backward_into, planned", |bench| {
        let mut call = || {
            let gradients = GradientsMut { table: Some(gradient.view_mut()) };
            backward_into(&stream, &inputs, &cotangents, &plan, gradients, &mut workspace).expect("it fits");
        };
        bench.iter_custom(|iterations| timed(iterations, &mut call));
    });
    group.bench_function("a graph of the forward", |bench| {
        bench.iter_custom(|iterations| timed(iterations, &mut || graph.replay(&stream).expect("it runs")));
    });
    group.finish();
    Ok(())
}
