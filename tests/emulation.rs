//! The generated bodies, unmodified, compiled by g++ and run on fibres: the CPU
//! executor's bytes, under every schedule and every seed of the interleaving.

mod cases;

use std::collections::HashSet;

use cases::plans::PlanCase;
use cases::problem::{Placement, Problem};
use cases::sums_of::Sums;
use cases::{bad_indices, direction, kernels, kinds_of, order, plans, width};
use rowloom::codegen::ir::Direction;
use rowloom::codegen::schedule::PlanKind;
use rowloom::codegen::spec::SpecError;
use rowloom::codegen::{
    Accumulate, DType, IntType, PlanSchedule, Schedule, Source, Spec, Verified, Wants, backward, generate,
};
use rowloom::{Declaration, Device, RowPlan, RowShape, Tensor, Term};
use rowloom_op_adaln::row_gather;

/// Seeds of the interleaving: nothing may depend on it.
const SEEDS: [u64; 2] = [20, 0xF1B2E];

/// Schedules to run and whether with plans.
type Runs = Vec<(Schedule, bool)>;

/// Compiles in one go what these calls need.
fn compile(device: &Device, calls: &[(&Problem, &Placement<'_>, &Runs)]) {
    let sources = calls.iter().flat_map(|(problem, placement, runs)| {
        let source = |&(schedule, planned): &(Schedule, bool)| {
            generate(&problem.kernel, &placement.spec(planned), &schedule).expect("it is legal")
        };
        runs.iter().map(source)
    });
    let sources: Vec<Source> = sources.collect();
    device.precompile(&sources.iter().collect::<Vec<_>>()).unwrap();
}

/// Runs one kernel in emulation under every legal schedule, planned and, where it can be,
/// checked; some of them under another seed too.
fn check(kernel: &Verified, dtype: DType, rows: u64, positions: u64, hidden: u64) {
    let counts = vec![rows; kernel.counts.len()];
    let problem = Problem::new(kernel, dtype, IntType::I64, &counts, positions, hidden);
    let expected = problem.expected();
    for (turn, seed) in SEEDS.into_iter().enumerate() {
        let device = Device::emulated(seed).unwrap();
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        let modes: &[bool] = if kernel.sums() { &[true] } else { &[true, false] };
        let of_mode = |&planned: &bool| placement.schedules(planned).into_iter().map(move |one| (one, planned));
        let runs: Runs = modes.iter().flat_map(of_mode).collect();
        assert!(runs.len() > 1);
        compile(&device, &[(&problem, &placement, &runs)]);
        // The first seed meets every schedule, the others some.
        for &(schedule, planned) in runs.iter().step_by(1 + 4 * turn) {
            placement.check(&expected, Some(schedule), planned);
        }
        placement.check(&expected, None, false);
        placement.check_inputs();
    }
}

fn check_both_ways(name: &str, dtype: DType, rows: u64, sizes: &[(u64, u64)]) {
    for way in [Direction::Forward, Direction::Backward] {
        for accumulate in [Accumulate::F32, Accumulate::F64] {
            let kernel = direction(name, way, accumulate);
            if !kernel.sums() && accumulate == Accumulate::F64 {
                continue;
            }
            for &(positions, hidden) in sizes {
                check(&kernel, dtype, rows, positions, hidden);
            }
        }
    }
}

#[test]
fn adaln() {
    // One position; rows of several blocks; scalar columns.
    check_both_ways("adaln_row_gather", DType::Bf16, 9, &[(1, 8), (600, 40), (257, 5)]);
    // Two tiles of columns under most schedules.
    check_both_ways("adaln_row_gather", DType::Bf16, 3, &[(520, 776)]);
}

#[test]
fn single_chunk_ops() {
    for name in ["row_gather", "row_scatter_sum"] {
        check_both_ways(name, DType::F32, 9, &[(600, 24)]);
        check_both_ways(name, DType::F16, 1026, &[(300, 8)]);
    }
}

#[test]
fn kernels_of_other_shapes() {
    for name in kernels::NAMES {
        check_both_ways(name, DType::F16, 9, &[(600, 24), (65, 5)]);
    }
}

/// Every second of the selected problems, each under the default schedule, planned and not, and
/// under one other.
fn check_width(part: usize) {
    let device = Device::emulated(SEEDS[part]).unwrap();
    let (cpu, stream) = (Device::cpu().stream().unwrap(), device.stream().unwrap());
    let problems: Vec<Problem> = width::problems(&width::SMALL, 1).skip(part).step_by(2).collect();
    let number = |problem: &Problem| problem.positions * 7 + problem.hidden * 31 + problem.counts[0];
    for problems in problems.chunks(24) {
        let mut placements: Vec<_> = problems.iter().map(|problem| problem.place(&stream).unwrap()).collect();
        let runs = |(problem, placement): (&Problem, &Placement<'_>)| -> Runs {
            let planned = placement.schedules(true);
            let other = planned[number(problem) as usize % planned.len()];
            let mut runs = vec![(planned[0], true), (other, true)];
            if !problem.kernel.sums() {
                runs.push((placement.schedules(false)[0], false));
            }
            runs
        };
        let runs: Vec<Runs> = problems.iter().zip(&placements).map(runs).collect();
        let calls =
            problems.iter().zip(&placements).zip(&runs).map(|((problem, placed), runs)| (problem, placed, runs));
        compile(&device, &calls.collect::<Vec<_>>());
        for ((problem, placement), runs) in problems.iter().zip(&mut placements).zip(&runs) {
            let expected = problem.expected();
            for planned in [true, false] {
                problem.place(&cpu).unwrap().check(&expected, None, planned);
            }
            for &(schedule, planned) in runs {
                placement.check(&expected, Some(schedule), planned);
            }
            placement.check(&expected, None, false);
            placement.check_inputs();
        }
    }
}

#[test]
fn width_one_half() {
    check_width(0);
}

#[test]
fn width_other_half() {
    check_width(1);
}

/// Offsets beyond 2^32 elements, in memory that is hardly touched; on the CPU too.
#[test]
fn rows_are_far_apart() {
    let device = Device::emulated(4).unwrap();
    let (cpu, stream) = (Device::cpu().stream().unwrap(), device.stream().unwrap());
    for problem in width::far() {
        let expected = problem.expected();
        problem.place(&cpu).unwrap().check(&expected, None, false);
        let mut placement = problem.place(&stream).unwrap();
        // One of each kind.
        let mut runs: Runs = placement.schedules(true).into_iter().map(|schedule| (schedule, true)).collect();
        let mut kinds = HashSet::new();
        runs.retain(|(schedule, _)| kinds.insert(kinds_of(schedule)));
        compile(&device, &[(&problem, &placement, &runs)]);
        for &(schedule, planned) in &runs {
            placement.check(&expected, Some(schedule), planned);
        }
        placement.check(&expected, None, false);
    }
}

/// No scratch memory in proportion to S·H or R·H.
#[test]
fn rows_referenced_once_need_no_workspace() {
    let problem = width::rows_referenced_once(4);
    let mut placement = problem.place(&Device::emulated(6).unwrap().stream().unwrap()).unwrap();
    placement.check(&problem.expected(), None, true);
    assert!(placement.workspace_bytes <= 4096, "{} bytes", placement.workspace_bytes);
}

#[test]
fn the_selection_covers_every_pair() {
    cases::covering::check();
}

/// Compiles in one go what these plans need.
fn compile_plans(device: &Device, plans: &[(&PlanCase, &[PlanSchedule])]) {
    let sources = plans.iter().flat_map(|(case, schedules)| schedules.iter().map(|&schedule| case.source(schedule)));
    let sources: Vec<Source> = sources.collect();
    device.precompile(&sources.iter().collect::<Vec<_>>()).unwrap();
}

/// Every array of every plan, under every schedule.
#[test]
fn plans_are_the_cpus_under_every_schedule() {
    // A source is of all numbers of positions.
    let small = plans::of_every_shape(&[1, 2, 3, 255, 256, 257, 832], 12);
    let large = plans::of_every_shape(&[4097, 9000], 13);
    for (turn, seed) in SEEDS.into_iter().enumerate() {
        let device = Device::emulated(seed).unwrap();
        let stream = device.stream().unwrap();
        for (at, case) in small.iter().chain(&large).enumerate() {
            let schedules = case.schedules();
            assert!(schedules.len() > 1);
            // The first seed meets every schedule, the others some.
            let some: Vec<_> = schedules.into_iter().skip(turn * (at % 5)).step_by(1 + 4 * turn).collect();
            compile_plans(&device, &[(case, &some)]);
            case.check(&stream, &some);
        }
    }
}

/// So many tiles that a span has several, and the last one fewer.
#[test]
fn plans_of_many_tiles() {
    let device = Device::emulated(14).unwrap();
    let kinds = [PlanKind::Tiles, PlanKind::Spans, PlanKind::OneBlock];
    let small = kinds.map(|kind| PlanSchedule { kind, threads: 64, items: 1 });
    for case in plans::of_every_shape(&[70_001], 15) {
        let legal: Vec<PlanSchedule> = small.into_iter().filter(|schedule| case.allows(schedule)).collect();
        compile_plans(&device, &[(&case, &legal)]);
        case.check(&device.stream().unwrap(), &legal);
    }
}

/// Every array of every plan, under the default schedule and under another.
#[test]
fn plans_are_the_cpus() {
    let device = Device::emulated(11).unwrap();
    let cases = plans::random(40, 3000, 20_000, 5);
    let schedules = cases.iter().enumerate().map(|(at, case)| {
        let legal = case.schedules();
        [legal[0], legal[at % legal.len()]]
    });
    let schedules: Vec<[PlanSchedule; 2]> = schedules.collect();
    let runs = cases.iter().zip(&schedules).map(|(case, schedules)| (case, schedules.as_slice()));
    compile_plans(&device, &runs.collect::<Vec<_>>());
    let stream = device.stream().unwrap();
    for (at, (case, schedules)) in cases.iter().zip(&schedules).enumerate() {
        case.check(&stream, schedules);
        if at % 4 == 0 {
            case.check_repeat(&stream, 2 + at % 3);
        }
    }
}

#[test]
fn bad_indices_are_errors_under_every_schedule() {
    bad_indices::check(&Device::emulated(5).unwrap());
}

#[test]
fn plans_refuse_what_is_out_of_bounds() {
    plans::check_faults(&Device::emulated(2).unwrap().stream().unwrap());
}

#[test]
fn sums_that_reveal_their_order() {
    Sums::check(&Device::cpu());
    Sums::check(&Device::emulated(3).unwrap());
}

#[test]
fn sums_are_handed_on_however_rows_lie_among_runs() {
    for seed in 0..4 {
        order::check_handing_on(&Device::emulated(seed).unwrap());
    }
}

#[test]
fn a_nan_stays_in_its_row_and_every_run_gives_the_same_bytes() {
    for device in [Device::cpu(), Device::emulated(8).unwrap()] {
        order::check_nan_stays(&device);
    }
    order::check_repeats(&Device::emulated(9).unwrap(), 5000, 3);
}

/// A gather whose pad no literal of C++ can spell without care.
const SMALLEST_PAD: &str = "\
kernel smallest_pad forward
order block = 8, accumulate = f32
float T
int I
rows R
input table: table<T, R, 1>
input row: index<I, R, pad = -9223372036854775808>
row r0: R = row
v0: rows<T> = gather table[0] at r0
output out: rows<T> = [v0]
";

#[test]
fn the_smallest_integer_can_be_a_pad() {
    let declared = Declaration::from_ir(SMALLEST_PAD).unwrap();
    let gather = declared.forward();
    let device = Device::emulated(7).unwrap();
    for kernel in [gather.clone(), backward(gather, &Wants::all(gather))] {
        let problem = Problem::new(&kernel, DType::F32, IntType::I64, &[9], 100, 5);
        let expected = problem.expected();
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        for planned in [true, false] {
            placement.check(&expected, None, planned);
        }
        // It is among them.
        let index = problem.inputs.iter().flatten().find(|tensor| tensor.columns == 1).expect("it has an index");
        assert!(index.bytes.chunks_exact(8).any(|number| number == i64::MIN.to_ne_bytes()));
    }
    let mut spec = Spec::contiguous(gather, DType::F32, IntType::I32, &[9], 5);
    assert!(matches!(spec.check(gather), Err(SpecError::Pad { pad: i64::MIN, .. })));
    spec.ints[0] = IntType::I64;
    spec.inputs[1].vector_bytes = 8;
    spec.check(gather).unwrap();
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
