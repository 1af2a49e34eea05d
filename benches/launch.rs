//! Host time of a planned launch: everything between a call and the driver. The
//! device is one that leaves its work out, so a figure here is rowloom's own part.

use criterion::{Criterion, criterion_group, criterion_main};
use half::bf16;
use rowloom::{RowPlan, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather::{
    Cotangents, GradientsMut, Inputs, OutputsMut, backward_into, backward_workspace_bytes, forward_into,
};
use rowloom_runtime::probe::Probe;

const POSITIONS: u64 = 600;
const HIDDEN: u64 = 64;
const ROWS: u64 = 9;

fn launch(criterion: &mut Criterion) {
    let probe = Probe::new().expect("g++ is installed");
    let stream = probe.device().stream().expect("an emulated device has streams");
    let table = Tensor::<bf16>::zeros(&stream, ROWS, 6 * HIDDEN).expect("memory");
    let index: Vec<i64> = (0..POSITIONS as i64).map(|at| at % 3).collect();
    let timestep = Tensor::from_slice(&stream, &index, POSITIONS, 1).expect("memory");
    let modality = Tensor::from_slice(&stream, &index, POSITIONS, 1).expect("memory");
    let inputs = Inputs { table: table.view(), timestep: timestep.view(), modality: modality.view() };
    let rows = [(timestep.view().any(), 3, 3), (modality.view().any(), 1, 3)];
    let plan = RowPlan::affine(&stream, &rows).expect("indices are in bounds");
    let zeros = || Tensor::<bf16>::zeros(&stream, POSITIONS, HIDDEN).expect("memory");
    let mut outputs: [Tensor<bf16>; 6] = std::array::from_fn(|_| zeros());
    let mut gradient = Tensor::<bf16>::zeros(&stream, ROWS, 6 * HIDDEN).expect("memory");
    let wanted = GradientsMut { table: Some(gradient.view_mut()) };
    let cotangents = Cotangents { out: outputs.each_ref().map(Tensor::view) };
    let bytes = backward_workspace_bytes(&stream, &inputs, &cotangents, &plan, wanted).expect("it fits");
    let mut workspace = Workspace::with_bytes(&stream, bytes).expect("memory");
    probe.leave_work_out();

    let mut group = criterion.benchmark_group("launch");
    group.bench_function("forward_into, planned", |bench| {
        bench.iter(|| {
            let out = outputs.each_mut().map(Tensor::view_mut);
            forward_into(&stream, &inputs, &plan, OutputsMut { out }, &mut workspace).expect("it fits");
        });
    });
    group.bench_function("backward_into, planned", |bench| {
        bench.iter(|| {
            let cotangents = Cotangents { out: outputs.each_ref().map(Tensor::view) };
            let gradients = GradientsMut { table: Some(gradient.view_mut()) };
            backward_into(&stream, &inputs, &cotangents, &plan, gradients, &mut workspace).expect("it fits");
        });
    });
    let graph = stream
        .capture(|| {
            let out = outputs.each_mut().map(Tensor::view_mut);
            forward_into(&stream, &inputs, &plan, OutputsMut { out }, &mut workspace)
        })
        .expect("it was called before");
    group.bench_function("a graph of the forward", |bench| {
        bench.iter(|| graph.replay(&stream).expect("it runs"));
    });
    group.finish();
}

criterion_group!(benches, launch);
criterion_main!(benches);
