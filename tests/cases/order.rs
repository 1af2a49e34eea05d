//! What the ordered sum promises beside its order: NaN stays in its row, and every run gives
//! the same bytes.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rowloom::Device;
use rowloom::codegen::ir::{Direction, Order};
use rowloom::codegen::schedule::{SegmentsKind, SegmentsSchedule};
use rowloom::codegen::{Accumulate, DType, IntType, Schedule};

use super::lay::HostTensor;
use super::problem::{Problem, column, values};
use super::{direction, registered};

/// Values without an infinity or a NaN.
pub fn finite_values(random: &mut ChaCha8Rng, dtype: DType, rows: u64, columns: u64) -> HostTensor {
    let mut tensor = values(random, dtype, rows, columns);
    // The byte of the sign and the highest bits of the exponent is the last on a little-endian machine.
    for element in tensor.bytes.chunks_exact_mut(dtype.bytes() as usize) {
        let high = u16::from_ne_bytes([element[element.len() - 2], element[element.len() - 1]]);
        let exponent = if dtype == DType::F16 { 0x7C00 } else { 0x7F80 };
        if high & exponent == exponent {
            element.fill(0);
        }
    }
    tensor
}

/// A sum over positions of these rows, with finite summands.
fn sums(dtype: DType, accumulate: Accumulate, rows: u64, hidden: u64, index: Vec<i64>) -> Problem {
    let kernel = direction("row_scatter_sum", Direction::Forward, accumulate);
    let positions = index.len() as u64;
    let mut problem = Problem::new(&kernel, dtype, IntType::I64, &[rows], positions, hidden);
    let mut random = ChaCha8Rng::seed_from_u64(positions);
    problem.inputs =
        vec![vec![finite_values(&mut random, dtype, positions, hidden)], vec![column(IntType::I64, index)]];
    problem
}

/// NaN in summands of row 4 alone: row 4 is NaN in those columns, all else is as without.
pub fn check_nan_stays(device: &Device) {
    let stream = device.stream().unwrap();
    for (dtype, accumulate) in [(DType::F32, Accumulate::F32), (DType::Bf16, Accumulate::F64)] {
        let (rows, hidden) = (9, 40);
        let index: Vec<i64> = (0..3000).map(|position| position * 7 % rows as i64).collect();
        let mut problem = sums(dtype, accumulate, rows, hidden, index.clone());
        let run = |problem: &Problem, schedule| problem.place(&stream).unwrap().run(schedule, true).unwrap().remove(0);
        let schedules = problem.place(&stream).unwrap().schedules(true);
        let clean = run(&problem, None);
        let size = dtype.bytes() as usize;
        let element = |row: usize, column: usize| (row * hidden as usize + column) * size;
        let columns = [0, 7, 39];
        for position in (0..3000).filter(|&position| index[position] == 4 && position % 2 == 0) {
            for column in columns {
                problem.inputs[0][0].bytes[element(position, column)..][..size].fill(0xFF);
            }
        }
        for schedule in schedules.into_iter().step_by(9) {
            let mut found = run(&problem, Some(schedule));
            for column in columns {
                let at = element(4, column);
                let high = u16::from_ne_bytes([found[at + size - 2], found[at + size - 1]]);
                assert!(high & 0x7F80 == 0x7F80 && high & 0x7F != 0, "{dtype} column {column}: {high:#06x}");
                found[at..at + size].copy_from_slice(&clean[at..at + size]);
            }
            assert!(found == clean, "{dtype}: a NaN left its row or column under {schedule}");
        }
    }
}

/// Positions of one row, summed again and again: the CPU's bytes each time.
pub fn check_repeats(device: &Device, positions: u64, runs: usize) {
    let stream = device.stream().unwrap();
    for dtype in [DType::F32, DType::Bf16] {
        let index = (0..positions).map(|position| i64::from(position % 1000 == 999)).collect();
        let problem = sums(dtype, Accumulate::F32, 3, 64, index);
        let expected = problem.expected();
        let mut placement = problem.place(&stream).unwrap();
        for _ in 0..runs {
            placement.check(&expected, None, true);
        }
    }
}

/// Rows of 8 positions a block, in blocks and positions of one more: some begin or end where a
/// run does, some fill several runs, some begin and end within one, some are empty.
const LENGTHS: [(u64, u64); 12] =
    [(0, 3), (4, 0), (0, 0), (8, 0), (8, 1), (2, 0), (0, 0), (29, 5), (1, 0), (7, 7), (16, 0), (3, 0)];

/// Sums that are handed on, in runs of every length: the CPU's bytes, however rows lie among runs.
pub fn check_handing_on(device: &Device) {
    let stream = device.stream().unwrap();
    for (seed, accumulate) in [Accumulate::F32, Accumulate::F64, Accumulate::F32].into_iter().enumerate() {
        let mut random = ChaCha8Rng::seed_from_u64(seed as u64);
        let mut lengths = LENGTHS;
        if seed > 0 {
            lengths.shuffle(&mut random);
        }
        let positions =
            lengths.iter().enumerate().map(|(row, &(blocks, more))| vec![row as i64; (8 * blocks + more) as usize]);
        let mut index: Vec<i64> = positions.flatten().collect();
        index.shuffle(&mut random);
        let mut problem = sums(DType::F32, accumulate, LENGTHS.len() as u64, 40, index);
        let declared = (registered("row_scatter_sum").declaration)();
        let ordered = declared.with_order(Order { block: 8, accumulate }).expect("it is an order");
        problem.kernel = ordered.forward().clone();
        let expected = problem.expected();
        let mut placement = problem.place(&stream).unwrap();
        for (run, resident) in [(1, 1), (2, 4), (4, 1), (4, 16), (8, 2)] {
            let kind = SegmentsKind::HandOn;
            let segments =
                SegmentsSchedule { kind, threads: 32, columns: 1, unroll: 4, run, resident, streaming: true };
            placement.check(&expected, Some(Schedule { positions: None, segments: Some(segments) }), true);
        }
    }
}
