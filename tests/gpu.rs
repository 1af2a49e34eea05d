//! On a GPU: the CPU executor's bytes, under every schedule, over the full width of calls.

mod cases;

use std::sync::OnceLock;

use cases::gpu::gpu;
use cases::parallel::in_parallel;
use cases::problem::Problem;
use cases::sums_of::Sums;
use cases::{bad_indices, direction, kernels, order, plans, width};
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType};
use rowloom::{Device, Error, Tensor};
use rowloom_op_adaln::adaln_row_gather;

/// A kernel in both directions under both accumulators, where they differ.
fn both_ways(name: &str, dtype: DType, rows: u64, sizes: &[(u64, u64)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for way in [Direction::Forward, Direction::Backward] {
        for accumulate in [Accumulate::F32, Accumulate::F64] {
            let kernel = direction(name, way, accumulate);
            if !kernel.sums() && accumulate == Accumulate::F64 {
                continue;
            }
            for &(positions, hidden) in sizes {
                let counts = vec![rows; kernel.counts.len()];
                problems.push(Problem::new(&kernel, dtype, IntType::I64, &counts, positions, hidden));
            }
        }
    }
    problems
}

/// Schedules that one thread takes at once.
const PIECE: usize = 16;

/// Each problem under every legal schedule, planned and, where it can be, checked.
fn check_every_schedule(device: &Device, problems: &[Problem]) {
    let expected: Vec<OnceLock<Vec<Vec<u8>>>> = problems.iter().map(|_| OnceLock::new()).collect();
    let stream = device.stream().unwrap();
    let mut pieces = Vec::new();
    for (at, problem) in problems.iter().enumerate() {
        let modes: &[bool] = if problem.kernel.sums() { &[true] } else { &[true, false] };
        let placement = problem.place(&stream).unwrap();
        for &planned in modes {
            let schedules = placement.schedules(planned);
            assert!(schedules.len() > 1);
            pieces.extend(schedules.chunks(PIECE).map(|piece| (at, planned, piece.to_vec())));
        }
    }
    in_parallel(pieces, |(at, planned, schedules)| {
        let problem = &problems[at];
        let expected = expected[at].get_or_init(|| problem.expected());
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        for schedule in schedules {
            placement.check(expected, Some(schedule), planned);
        }
        placement.check_inputs();
    });
}

/// Each problem under the default schedule, planned and not.
fn check_default(device: &Device, problems: impl IntoIterator<Item = Problem, IntoIter: Send>) {
    in_parallel(problems, |problem| {
        let expected = problem.expected();
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        for planned in [true, false] {
            placement.check(&expected, None, planned);
        }
    });
}

#[test]
fn adaln_at_its_own_sizes() {
    let Some(device) = gpu() else { return };
    for dtype in DType::ALL {
        let sizes = [(1, 5376), (257, 5376), (4097, 5376)];
        check_default(&device, both_ways("adaln_row_gather", dtype, 9, &sizes));
    }
}

#[test]
fn adaln_under_every_schedule() {
    let Some(device) = gpu() else { return };
    check_every_schedule(&device, &both_ways("adaln_row_gather", DType::Bf16, 9, &[(832, 5376)]));
    check_every_schedule(&device, &both_ways("adaln_row_gather", DType::F32, 3, &[(600, 776), (257, 5)]));
    check_every_schedule(&device, &both_ways("adaln_row_gather", DType::F16, 4098, &[(600, 264)]));
}

#[test]
fn single_chunk_ops_under_every_schedule() {
    let Some(device) = gpu() else { return };
    for name in ["row_gather", "row_scatter_sum"] {
        check_every_schedule(&device, &both_ways(name, DType::F16, 9, &[(832, 264)]));
        check_every_schedule(&device, &both_ways(name, DType::Bf16, 1026, &[(16385, 40)]));
    }
}

#[test]
fn kernels_of_other_shapes_under_every_schedule() {
    let Some(device) = gpu() else { return };
    for name in kernels::NAMES {
        check_every_schedule(&device, &both_ways(name, DType::F16, 9, &[(832, 264)]));
    }
}

/// Two selections of the width, each problem under the default schedule, planned and not, and
/// under two others.
#[test]
fn full_width() {
    let Some(device) = gpu() else { return };
    let numbered = width::problems(&width::LARGE, 1).chain(width::problems(&width::LARGE, 2)).enumerate();
    in_parallel(numbered, |(number, problem)| {
        let expected = problem.expected();
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        let planned = placement.schedules(true);
        for planned in [true, false] {
            placement.check(&expected, None, planned);
        }
        for at in [number * 7, number * 13 + 5] {
            placement.check(&expected, Some(planned[at % planned.len()]), true);
        }
        placement.check_inputs();
    });
}

/// Offsets of each kind of tensor beyond 2^32 elements.
#[test]
fn rows_are_far_apart() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for problem in width::far() {
        let expected = problem.expected();
        let mut placement = problem.place(&stream).unwrap();
        let mut kinds = std::collections::HashSet::new();
        let mut schedules = placement.schedules(true);
        schedules.retain(|schedule| kinds.insert(cases::kinds_of(schedule)));
        for schedule in schedules {
            placement.check(&expected, Some(schedule), true);
        }
        placement.check(&expected, None, false);
    }
}

#[test]
fn plans_are_the_cpus() {
    let Some(device) = gpu() else { return };
    in_parallel(plans::random(200, 300_000, 1 << 22, 5).into_iter().enumerate(), |(at, case)| {
        let stream = device.stream().unwrap();
        let legal = case.schedules();
        case.check(&stream, &[legal[0], legal[at % legal.len()]]);
        case.check_repeat(&stream, 1 + at % 4);
    });
}

#[test]
fn plans_are_the_cpus_under_every_schedule() {
    let Some(device) = gpu() else { return };
    let small = plans::of_every_shape(&[1, 2, 3, 255, 256, 257, 832], 12);
    let large = plans::of_every_shape(&[4097, 32_768, 131_072, 2_000_003], 13);
    in_parallel(small.into_iter().chain(large), |case| {
        case.check(&device.stream().unwrap(), &case.schedules());
    });
}

#[test]
fn bad_indices_are_errors_under_every_schedule() {
    let Some(device) = gpu() else { return };
    bad_indices::check(&device);
}

#[test]
fn plans_refuse_what_is_out_of_bounds() {
    let Some(device) = gpu() else { return };
    plans::check_faults(&device.stream().unwrap());
}

#[test]
fn sums_that_reveal_their_order() {
    let Some(device) = gpu() else { return };
    Sums::check(&device);
}

#[test]
fn sums_are_handed_on_however_rows_lie_among_runs() {
    let Some(device) = gpu() else { return };
    order::check_handing_on(&device);
}

#[test]
fn a_nan_stays_in_its_row() {
    let Some(device) = gpu() else { return };
    order::check_nan_stays(&device);
}

#[test]
fn every_run_gives_the_same_bytes() {
    let Some(device) = gpu() else { return };
    order::check_repeats(&device, 5000, 100);
    order::check_repeats(&device, 50_000, 200);
}

/// After each error the next call is right.
#[test]
fn a_bad_index_is_an_error_and_the_next_call_is_right() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let numbers: Vec<f32> = (0..9 * 6 * 8).map(|at| at as f32).collect();
    let table = Tensor::from_slice(&stream, &numbers, 9, 48).unwrap();
    let good = vec![2i64; 64];
    for (argument, bad, bound) in [
        ("timestep", 3, 3),
        ("timestep", -1, 3),
        ("modality", 3, 3),
        ("timestep", i64::MAX, 3),
        ("modality", i64::MIN, 3),
    ] {
        let mut bads = good.clone();
        bads[59..].fill(bad);
        let (timestep, modality) = if argument == "timestep" { (&bads, &good) } else { (&good, &bads) };
        let timestep = Tensor::from_slice(&stream, timestep, 64, 1).unwrap();
        let modality = Tensor::from_slice(&stream, modality, 64, 1).unwrap();
        let inputs =
            adaln_row_gather::Inputs { table: table.view(), timestep: timestep.view(), modality: modality.view() };
        let ones = Tensor::from_slice(&stream, &vec![1.0f32; 64 * 8], 64, 8).unwrap();
        let cotangents = adaln_row_gather::Cotangents { out: [ones.view(); 6] };
        let wants = adaln_row_gather::Wants::TABLE;
        let forward = adaln_row_gather::forward(&stream, &inputs, None).map(|_| ()).unwrap_err();
        let backward = adaln_row_gather::backward(&stream, &inputs, &cotangents, None, wants).map(|_| ()).unwrap_err();
        for error in [forward, backward] {
            let Error::Index { argument: named, position, value, bound: limit, .. } = error else { panic!("{error}") };
            assert_eq!((named.as_str(), position, value, limit), (argument, 59, i128::from(bad) as _, bound));
        }
        let timestep = Tensor::from_slice(&stream, &good, 64, 1).unwrap();
        let inputs =
            adaln_row_gather::Inputs { table: table.view(), timestep: timestep.view(), modality: timestep.view() };
        let outputs = adaln_row_gather::forward(&stream, &inputs, None).unwrap();
        for (chunk, out) in outputs.out.iter().enumerate() {
            assert_eq!(out.to_vec(&stream).unwrap()[63 * 8..], numbers[8 * 48 + chunk * 8..][..8]);
        }
    }
}
