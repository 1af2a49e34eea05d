//! The CPU executor on the op's own sizes, beside a plain copy of as many bytes.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;
use rowloom::{Device, RowPlan, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather::{Cotangents, Inputs, OutputsMut, Wants, backward, forward_into};

const POSITIONS: u64 = 4097;
const HIDDEN: u64 = 5376;
const ROWS: u64 = 9;

fn cpu(criterion: &mut Criterion) {
    let stream = Device::cpu().stream().expect("a CPU has streams");
    let elements = (POSITIONS * HIDDEN) as usize;
    let table = vec![bf16::from_f32(0.5); (ROWS * 6 * HIDDEN) as usize];
    let table = Tensor::from_slice(&stream, &table, ROWS, 6 * HIDDEN).expect("memory");
    // Every row at every place: a stride that is coprime to both bounds.
    let timestep: Vec<i64> = (0..POSITIONS as i64).map(|at| at * 7 % 3).collect();
    let modality: Vec<i64> = (0..POSITIONS as i64).map(|at| at * 5 / 3 % 3).collect();
    let timestep = Tensor::from_slice(&stream, &timestep, POSITIONS, 1).expect("memory");
    let modality = Tensor::from_slice(&stream, &modality, POSITIONS, 1).expect("memory");
    let inputs = Inputs { table: table.view(), timestep: timestep.view(), modality: modality.view() };
    let rows = [(timestep.view().any(), 3, 3), (modality.view().any(), 1, 3)];
    let plan = RowPlan::affine(&stream, &rows).expect("indices are in bounds");
    let zeros = || Tensor::<bf16>::zeros(&stream, POSITIONS, HIDDEN).expect("memory");
    let mut outputs: [Tensor<bf16>; 6] = std::array::from_fn(|_| zeros());
    let mut workspace = Workspace::new(&stream);

    let mut group = criterion.benchmark_group("cpu");
    group.sample_size(20).throughput(Throughput::Bytes((elements * 6 * 2) as u64));
    group.bench_function("copy", |bench| {
        let from = vec![1u16; elements * 6];
        let mut to = vec![0u16; elements * 6];
        bench.iter(|| to.copy_from_slice(std::hint::black_box(&from)));
    });
    group.bench_function("forward, planned", |bench| {
        bench.iter(|| {
            let out = outputs.each_mut().map(Tensor::view_mut);
            forward_into(&stream, &inputs, &plan, OutputsMut { out }, &mut workspace).expect("it fits");
        });
    });
    group.bench_function("backward, planned", |bench| {
        let cotangents = Cotangents { out: outputs.each_ref().map(Tensor::view) };
        bench.iter(|| backward(&stream, &inputs, &cotangents, &plan, Wants::TABLE).expect("it fits"));
    });
    group.finish();
}

criterion_group!(benches, cpu);
criterion_main!(benches);
