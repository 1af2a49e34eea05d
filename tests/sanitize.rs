//! What compute-sanitizer watches, small enough for its slowest tool: each kind of schedule of
//! kernels that differ in what they do, and plans of one and of several passes. Beside a GPU
//! `tests/sanitize.sh` runs it under every tool; alone it is one more test of bytes.

mod cases;

use std::collections::HashSet;

use cases::gpu::gpu;
use cases::lay::Lay;
use cases::plans::{self, PlanCase};
use cases::problem::{Lays, Problem};
use cases::{direction, kinds_of};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType};

const NAMES: [&str; 5] = ["adaln_row_gather", "row_scatter_sum", "one_table_twice", "padded", "scatter_of_gathered"];

/// Rows of several blocks, accesses of 16 bytes; and accesses of one element in views.
fn problems() -> Vec<Problem> {
    let apart =
        Lays { rows: Lay::ShiftedApart, tables: Lay::OddStride, indices: Lay::Shifted, outputs: Lay::ShiftedApart };
    let mut problems = Vec::new();
    for name in NAMES {
        for way in [Direction::Forward, Direction::Backward] {
            for accumulate in [Accumulate::F32, Accumulate::F64] {
                let kernel = direction(name, way, accumulate);
                if !kernel.sums() && accumulate == Accumulate::F64 {
                    continue;
                }
                let counts = vec![9; kernel.counts.len()];
                for (dtype, int, positions, hidden, lays) in
                    [(DType::Bf16, IntType::I64, 600, 40, Lays::PACKED), (DType::F32, IntType::I32, 300, 5, apart)]
                {
                    problems.push(Problem::laid(&kernel, dtype, int, &counts, positions, hidden, lays));
                }
            }
        }
    }
    problems
}

#[test]
fn each_kind_of_schedule() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for problem in problems() {
        let expected = problem.expected();
        let mut placement = problem.place(&stream).unwrap();
        for planned in [true, false] {
            let mut kinds = HashSet::new();
            let mut schedules = placement.schedules(planned);
            schedules.retain(|schedule| kinds.insert(kinds_of(schedule)));
            for schedule in schedules {
                placement.check(&expected, Some(schedule), planned);
            }
        }
    }
}

#[test]
fn plans_of_one_and_several_passes() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let direct = [(1, 1), (600, 9), (3000, 9), (600, 300), (3000, 4098), (600, 70_000)];
    let direct = direct.map(|(positions, rows)| PlanCase::direct(&mut random, positions, rows));
    for case in direct.into_iter().chain(plans::random(6, 2000, 20_000, 9)) {
        let mut kinds = HashSet::new();
        let mut schedules = case.schedules();
        schedules.retain(|schedule| kinds.insert(schedule.kind));
        case.check(&stream, &schedules);
    }
}

/// The paths that end in an error.
#[test]
fn bad_indices() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for int in [IntType::I32, IntType::U8] {
        let kernel = direction("row_gather", Direction::Forward, Accumulate::F32);
        let mut problem = Problem::new(&kernel, DType::Bf16, int, &[9], 600, 40);
        problem.inputs[1][0].bytes[590 * int.bytes() as usize] = 9;
        // Without a plan the kernel checks, with one the plan.
        for planned in [false, true] {
            let error = problem.place(&stream).unwrap().run(None, planned).unwrap_err();
            assert_eq!(error.to_string(), "row[590] is 9, but it must be in 0..9");
        }
    }
}
