//! On a GPU: the CPU executor's bytes, under every schedule, at the op's own sizes.

mod cases;

use cases::gpu::gpu;
use cases::problem::Problem;
use cases::sums_of::Sums;
use cases::{direction, kernels};
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType, Schedule, Verified};
use rowloom::{Device, Error, Tensor};
use rowloom_op_adaln::adaln_row_gather;

/// A step over the legal schedules that leaves the first.
const ONLY_DEFAULT: usize = usize::MAX;

/// The default schedule and every `every`th legal one, planned and, where it can be, checked.
fn check(device: &Device, kernel: &Verified, dtype: DType, rows: u64, positions: u64, hidden: u64, every: usize) {
    let counts = vec![rows; kernel.counts.len()];
    let problem = Problem::new(kernel, dtype, IntType::I64, &counts, positions, hidden);
    let expected = problem.run(&Device::cpu().stream().unwrap(), None, false).unwrap();
    let mut spec = problem.spec(dtype, IntType::I64);
    spec.arch = device.arch().unwrap();
    let stream = device.stream().unwrap();
    let space = Schedule::space(kernel, &spec).into_iter();
    let legal = space.filter(|schedule| schedule.check(kernel, &spec).is_ok()).step_by(every);
    for schedule in [None].into_iter().chain(legal.map(Some)) {
        for planned in [true, false] {
            if schedule.is_some() && kernel.sums() && !planned {
                continue;
            }
            let found = problem.run(&stream, schedule, planned).unwrap();
            let name = format!("{} {} {dtype} R = {rows}, S = {positions}", kernel.name, kernel.direction);
            assert_eq!(problem.difference(&expected, &found), None, "{name}, planned {planned}: {schedule:?}");
        }
    }
}

fn check_both_ways(device: &Device, name: &str, dtype: DType, rows: u64, sizes: &[(u64, u64)], every: usize) {
    for way in [Direction::Forward, Direction::Backward] {
        for accumulate in [Accumulate::F32, Accumulate::F64] {
            let kernel = direction(name, way, accumulate);
            if !kernel.sums() && accumulate == Accumulate::F64 {
                continue;
            }
            for &(positions, hidden) in sizes {
                check(device, &kernel, dtype, rows, positions, hidden, every);
            }
        }
    }
}

#[test]
fn adaln_at_its_own_sizes() {
    let Some(device) = gpu() else { return };
    for dtype in DType::ALL {
        check_both_ways(&device, "adaln_row_gather", dtype, 9, &[(1, 5376), (257, 5376), (4097, 5376)], ONLY_DEFAULT);
    }
    check_both_ways(&device, "adaln_row_gather", DType::Bf16, 9, &[(600, 5)], ONLY_DEFAULT);
    check_both_ways(&device, "adaln_row_gather", DType::Bf16, 4098, &[(4097, 40)], ONLY_DEFAULT);
}

#[test]
fn adaln_under_every_schedule() {
    let Some(device) = gpu() else { return };
    check_both_ways(&device, "adaln_row_gather", DType::Bf16, 9, &[(832, 5376)], 1);
    check_both_ways(&device, "adaln_row_gather", DType::F32, 3, &[(600, 776)], 1);
}

#[test]
fn other_kernels_under_every_fifth_schedule() {
    let Some(device) = gpu() else { return };
    for name in ["row_gather", "row_scatter_sum"].into_iter().chain(kernels::NAMES) {
        check_both_ways(&device, name, DType::F16, 9, &[(832, 264)], 5);
    }
}

/// Positions and rows on axes that are too short for them.
#[test]
fn grids_are_long_enough() {
    let Some(device) = gpu() else { return };
    for positions in [65535, 65536, 65537] {
        check_both_ways(&device, "row_gather", DType::Bf16, 9, &[(positions, 8)], ONLY_DEFAULT);
    }
    check_both_ways(&device, "row_gather", DType::Bf16, 65538, &[(1, 8)], ONLY_DEFAULT);
    check_both_ways(&device, "row_gather", DType::Bf16, 9, &[((1 << 24) + 1, 1)], ONLY_DEFAULT);
}

#[test]
fn plans_are_the_cpus() {
    let Some(device) = gpu() else { return };
    let cpu = Device::cpu().stream().unwrap();
    cases::check_plans(&cpu, &device.stream().unwrap(), &[1, 257, 2049, 32768, 131_072]);
}

#[test]
fn sums_that_reveal_their_order() {
    let Some(device) = gpu() else { return };
    Sums::check(&device);
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
