//! The generated bodies, unmodified, compiled by g++ and run on fibres: every
//! snapshot's kernel gives the CPU executor's bytes under every schedule (of
//! thousands of rows, under every fourth).

mod cases;

use cases::problem::Problem;
use cases::sums_of::Sums;
use cases::{direction, kernels};
use rowloom::codegen::cuda;
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType, Schedule, Source, Verified, generate};
use rowloom::{Device, RowPlan, RowShape, Tensor, Term};
use rowloom_op_adaln::row_gather;

/// Runs one kernel in emulation under every legal schedule, planned and, where it can be, checked.
fn check(device: &Device, kernel: &Verified, dtype: DType, rows: u64, positions: u64, hidden: u64) -> usize {
    let counts = vec![rows; kernel.counts.len()];
    let problem = Problem::new(kernel, dtype, IntType::I64, &counts, positions, hidden);
    let expected = problem.run(&Device::cpu().stream().unwrap(), None, false).unwrap();
    let mut spec = problem.spec(dtype, IntType::I64);
    spec.arch = device.arch().unwrap();
    let mut legal = Vec::new();
    let mut sources: Vec<Source> = Vec::new();
    // Of thousands of rows each is a block: those take the default and every fourth other schedule.
    let step = if rows > 1000 { 4 } else { 1 };
    for schedule in Schedule::space(kernel, &spec).into_iter().step_by(step) {
        for planned in [true, false] {
            spec.planned = planned;
            if let Ok(source) = generate(kernel, &spec, &schedule) {
                legal.push((schedule, planned));
                sources.push(source);
            }
        }
    }
    device.precompile(&sources.iter().collect::<Vec<_>>()).unwrap();
    let stream = device.stream().unwrap();
    for &(schedule, planned) in &legal {
        let found = problem.run(&stream, Some(schedule), planned).unwrap();
        let name = format!("{} {} {dtype} R = {rows}, S = {positions}, H = {hidden}", kernel.name, kernel.direction);
        assert_eq!(problem.difference(&expected, &found), None, "{name}, planned {planned}: {schedule}");
    }
    legal.len()
}

fn check_both_ways(name: &str, dtype: DType, rows: u64, sizes: &[(u64, u64)]) {
    let device = Device::emulated(rows * 7 + sizes[0].0).unwrap();
    for way in [Direction::Forward, Direction::Backward] {
        for accumulate in [Accumulate::F32, Accumulate::F64] {
            let kernel = direction(name, way, accumulate);
            if !kernel.sums() && accumulate == Accumulate::F64 {
                continue;
            }
            for &(positions, hidden) in sizes {
                assert!(check(&device, &kernel, dtype, rows, positions, hidden) > 1);
            }
        }
    }
}

/// One position; two tiles of columns and rows of several blocks; scalar columns.
const SIZES: [(u64, u64); 3] = [(1, 8), (600, 776), (257, 5)];

#[test]
fn adaln_bf16() {
    check_both_ways("adaln_row_gather", DType::Bf16, 3, &[(300, 40)]);
    check_both_ways("adaln_row_gather", DType::Bf16, 9, &SIZES);
}

#[test]
fn adaln_f32() {
    check_both_ways("adaln_row_gather", DType::F32, 3, &[(300, 40)]);
    check_both_ways("adaln_row_gather", DType::F32, 9, &SIZES);
}

#[test]
fn adaln_of_many_rows() {
    check_both_ways("adaln_row_gather", DType::Bf16, 4098, &[(600, 8)]);
    check_both_ways("adaln_row_gather", DType::F32, 4098, &[(600, 8)]);
}

#[test]
fn single_chunk_ops() {
    for name in ["row_gather", "row_scatter_sum"] {
        for dtype in DType::ALL {
            check_both_ways(name, dtype, 3, &[(600, 40)]);
            check_both_ways(name, dtype, 9, &[(600, 24)]);
            check_both_ways(name, dtype, 4096, &[(300, 8)]);
        }
    }
}

#[test]
fn kernels_of_other_shapes() {
    for name in kernels::NAMES {
        check_both_ways(name, DType::F16, 9, &[(600, 24), (65, 5)]);
    }
}

#[test]
fn gradients_stored_as_f32() {
    let device = Device::emulated(5).unwrap();
    let kernel = direction("adaln_row_gather", Direction::Backward, Accumulate::F64);
    let mut problem = Problem::new(&kernel, DType::Bf16, IntType::I64, &[9], 600, 40);
    problem.gradient = Some(DType::F32);
    let expected = problem.run(&Device::cpu().stream().unwrap(), None, false).unwrap();
    let found = problem.run(&device.stream().unwrap(), None, false).unwrap();
    assert_eq!(expected[0].len(), 9 * 6 * 40 * 4);
    assert_eq!(problem.difference(&expected, &found), None);
}

/// Every array of every plan, at sizes around a tile of the sort and a block.
#[test]
fn plans_are_the_cpus() {
    let device = Device::emulated(11).unwrap();
    let sources: Vec<Source> = cases::plans().iter().map(|(_, shape)| cuda::plan(shape)).collect();
    device.precompile(&sources.iter().collect::<Vec<_>>()).unwrap();
    let cpu = Device::cpu().stream().unwrap();
    cases::check_plans(&cpu, &device.stream().unwrap(), &[1, 2, 255, 256, 257, 2047, 2049, 5000]);
}

#[test]
fn sums_that_reveal_their_order() {
    Sums::check(&Device::cpu());
    Sums::check(&Device::emulated(3).unwrap());
}

/// Code for a kernel without a pad does not look for positions without a row.
#[test]
fn a_plan_with_pads_is_refused_where_none_is_declared() {
    for device in [Device::cpu(), Device::emulated(1).unwrap()] {
        let stream = device.stream().unwrap();
        let row = Tensor::from_slice(&stream, &[0i64, -1, 2], 3, 1).unwrap();
        let term = Term { name: "row".to_owned(), factor: 1, bound: 3, pad: Some(-1) };
        let shape = RowShape { terms: vec![term], offset: 0, rows: 3, block: 256 };
        let plan = RowPlan::build(&stream, &shape, &[row.view().any()]).unwrap();
        let table = Tensor::from_slice(&stream, &[1.0f32; 3 * 8], 3, 8).unwrap();
        let inputs = row_gather::Inputs { table: table.view(), row: row.view() };
        let error = row_gather::forward(&stream, &inputs, &plan).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("positions without a row"), "{error}");
    }
}
