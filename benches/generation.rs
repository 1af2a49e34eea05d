//! Host work before a launch: reading and verifying IR, deriving a backward,
//! generating a source.

use criterion::{Criterion, criterion_group, criterion_main};
use rowloom::codegen::ir::Kernel;
use rowloom::codegen::{DType, IntType, Schedule, Spec, Wants, backward, generate};
use rowloom_op_adaln::adaln_row_gather;

fn generation(criterion: &mut Criterion) {
    let declared = adaln_row_gather::declaration().forward();
    let text = declared.to_string();
    let mut group = criterion.benchmark_group("generation");
    group.bench_function("read and verify IR", |bench| {
        bench.iter(|| Kernel::parse(&text).map(Kernel::verify));
    });
    let wants = Wants::all(declared);
    group.bench_function("derive the backward", |bench| bench.iter(|| backward(declared, &wants)));
    for (name, kernel) in [("forward", declared.clone()), ("backward", backward(declared, &wants))] {
        let spec = Spec::contiguous(&kernel, DType::Bf16, IntType::I64, &[9], 5376);
        let schedule = Schedule::default_for(&kernel, &spec).expect("it declares no tile");
        group.bench_function(format!("generate the {name}'s source"), |bench| {
            bench.iter(|| generate(&kernel, &spec, &schedule));
        });
    }
    group.finish();
}

criterion_group!(benches, generation);
criterion_main!(benches);
