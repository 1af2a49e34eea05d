//! Sums over positions: gradients of tables, and forward segment sums.
//!
//! The published checks look at outputs with a position axis, so they are
//! silent about these. Here a table row is compared with the same row when only
//! its own positions are packed, when all other positions change places, under
//! every schedule, and again and again.

use rand::seq::SliceRandom;
use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Op, OutputKind, RowId};
use rowloom_op_adaln::random;

use crate::error::Result;

use super::Measurement;
use super::host::Outputs;
use super::inputs::Batch;
use super::protocol::Protocol;
use super::schema::TableGradient;

/// Most rows of a table that are looked at one by one.
const ROWS_LOOKED_AT: usize = 64;

/// Calls of which [`repeatable`] compares the sums.
const REPEATABLE_CALLS: usize = 3;

/// What was compared of every kernel with sums over positions.
pub fn table_gradient(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<TableGradient> {
    let mut result = TableGradient::default();
    for kernel in measurement.case.kernels().into_iter().filter(|kernel| has_sums(kernel)) {
        one_kernel(measurement, kernel, protocol, &mut result)?;
    }
    Ok(result)
}

/// Whether equal calls give equal sums over positions, at every batch and seed of the protocol.
pub fn repeatable(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<bool> {
    let mut repeatable = true;
    for kernel in measurement.case.kernels().into_iter().filter(|kernel| has_sums(kernel)) {
        for (&positions, &seed) in
            protocol.all_rows.iter().flat_map(|batch| protocol.seeds.iter().map(move |seed| (batch, seed)))
        {
            for columns in measurement.slices(positions) {
                let batch = measurement.case.batch(kernel, positions, seed, columns);
                let mut call = measurement.implementation.load(kernel.direction, &batch)?;
                let first = call.run(None)?;
                for _ in 1..REPEATABLE_CALLS {
                    repeatable &= !sums_differ(kernel, &call.run(None)?, &first);
                }
            }
        }
    }
    Ok(repeatable)
}

/// Steps of the progress bar that [`table_gradient`] takes.
pub fn steps(measurement: &Measurement<'_>, protocol: &Protocol) -> u64 {
    let kernels = measurement.case.kernels().into_iter().filter(|kernel| has_sums(kernel));
    let of_kernel = |kernel: &Verified| {
        let rows = looked_at(table_rows(measurement, kernel)).len() as u64;
        (2 * rows + protocol.repeats as u64) * measurement.slices(protocol.largest()).len() as u64
    };
    kernels.map(of_kernel).sum()
}

fn one_kernel(
    measurement: &Measurement<'_>,
    kernel: &Verified,
    protocol: &Protocol,
    result: &mut TableGradient,
) -> Result<()> {
    let direction = kernel.direction;
    let rows = looked_at(table_rows(measurement, kernel));
    let mut isolated = vec![false; rows.len()];
    let mut permuted = vec![false; rows.len()];
    let mut repeats = vec![false; protocol.repeats];
    let mut schedules: Vec<bool> = Vec::new();
    let mark = |differ: &mut bool, now: bool| {
        *differ |= now;
        measurement.progress.inc(1);
    };
    for columns in measurement.slices(protocol.largest()) {
        let whole = measurement.case.batch(kernel, protocol.largest(), protocol.layout_seed, columns);
        let mut call = measurement.implementation.load(direction, &whole)?;
        let full = call.run(None)?;
        for differ in &mut repeats {
            mark(differ, sums_differ(kernel, &call.run(None)?, &full));
        }
        schedules.resize(call.schedules(), false);
        for (schedule, differ) in schedules.iter_mut().enumerate() {
            *differ |= sums_differ(kernel, &call.run(Some(schedule))?, &full);
        }
        drop(call);
        let row_of = RowOf::new(kernel, &whole);
        for (number, &row) in rows.iter().enumerate() {
            let (own, others) = row_of.split(row);
            let differs = if own.is_empty() {
                !row_is_zero(kernel, &full, row)
            } else {
                let packed = whole.select(kernel, &own);
                row_differs(kernel, &measurement.implementation.evaluate(direction, &packed)?, &full, row)
            };
            mark(&mut isolated[number], differs);
            let shuffled = whole.select(kernel, &shuffle_others(&own, others, row));
            let differs = row_differs(kernel, &measurement.implementation.evaluate(direction, &shuffled)?, &full, row);
            mark(&mut permuted[number], differs);
        }
    }
    let count = |differ: &[bool]| differ.iter().filter(|differ| **differ).count() as u64;
    result.isolated_rows += isolated.len() as u64;
    result.isolated_rows_differ += count(&isolated);
    result.other_rows_permuted += permuted.len() as u64;
    result.other_rows_permuted_differ += count(&permuted);
    result.schedules += schedules.len() as u64;
    result.schedules_differ += count(&schedules);
    result.repeats += repeats.len() as u64;
    result.repeats_differ += count(&repeats);
    Ok(())
}

/// The table rows that the positions of a batch add to.
struct RowOf(Vec<Vec<u64>>);

impl RowOf {
    fn new(kernel: &Verified, batch: &Batch) -> RowOf {
        let mut summed: Vec<RowId> = kernel
            .nodes
            .iter()
            .filter_map(|node| match node.op {
                Op::SegmentSum { row, .. } => Some(row),
                Op::Read { .. } | Op::Gather { .. } | Op::Cast { .. } | Op::Add { .. } | Op::Zero => None,
            })
            .collect();
        summed.sort_unstable();
        summed.dedup();
        RowOf(summed.into_iter().map(|row| batch.rows(kernel, row.index())).collect())
    }

    /// Positions that add to this row, and all others.
    fn split(&self, row: u64) -> (Vec<u32>, Vec<u32>) {
        let positions = self.0.first().map_or(0, Vec::len);
        (0..positions as u32).partition(|&position| self.0.iter().any(|rows| rows[position as usize] == row))
    }
}

/// All positions with those of `own` in place and the others among each other's places.
fn shuffle_others(own: &[u32], others: Vec<u32>, row: u64) -> Vec<u32> {
    let mut positions: Vec<u32> = (0..(own.len() + others.len()) as u32).collect();
    let mut shuffled = others.clone();
    shuffled.shuffle(&mut random::generator(row, random::CHOICES));
    for (place, position) in others.into_iter().zip(shuffled) {
        positions[place as usize] = position;
    }
    positions
}

fn has_sums(kernel: &Verified) -> bool {
    kernel.outputs.iter().any(|output| matches!(output.kind, OutputKind::Table { .. }))
}

fn table_rows(measurement: &Measurement<'_>, kernel: &Verified) -> usize {
    let rows = kernel.outputs.iter().filter_map(|output| match output.kind {
        OutputKind::Table { rows, .. } => Some(measurement.case.rows(rows)),
        OutputKind::Rows(_) => None,
    });
    rows.max().unwrap_or(0)
}

/// All rows, or as many as are looked at, evenly spread.
fn looked_at(rows: usize) -> Vec<u64> {
    let count = rows.min(ROWS_LOOKED_AT);
    (0..count).map(|number| (number * rows / count) as u64).collect()
}

/// The tensors of the outputs that are sums over positions.
fn sums<'o>(kernel: &'o Verified, outputs: &'o Outputs) -> impl Iterator<Item = &'o super::host::HostTensor> {
    let tables = kernel.outputs.iter().zip(outputs);
    tables.filter(|(output, _)| matches!(output.kind, OutputKind::Table { .. })).flat_map(|(_, tensors)| tensors)
}

fn sums_differ(kernel: &Verified, left: &Outputs, right: &Outputs) -> bool {
    sums(kernel, left).zip(sums(kernel, right)).any(|(left, right)| left.elements.bytes() != right.elements.bytes())
}

fn row_differs(kernel: &Verified, left: &Outputs, right: &Outputs, row: u64) -> bool {
    let row = row as usize;
    let mut pairs = sums(kernel, left).zip(sums(kernel, right));
    pairs.any(|(left, right)| row < left.rows && left.row(row) != right.row(row))
}

/// Whether a row that no position adds to is +0.0 in every bit.
fn row_is_zero(kernel: &Verified, outputs: &Outputs, row: u64) -> bool {
    let row = row as usize;
    sums(kernel, outputs).all(|tensor| row >= tensor.rows || tensor.row(row).iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_change_places_and_own_stay() {
        let (own, others): (Vec<u32>, Vec<u32>) = (0..100).partition(|position| position % 3 == 0);
        let positions = shuffle_others(&own, others, 5);
        let moved = positions.iter().enumerate().filter(|(place, position)| *place as u32 != **position);
        assert!(moved.clone().all(|(place, position)| place % 3 != 0 && position % 3 != 0));
        assert!(moved.count() > 50);
        let mut sorted = positions;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
    }

    #[test]
    fn few_rows_are_all_looked_at_and_many_are_spread() {
        assert_eq!(looked_at(9), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let rows = looked_at(4096);
        assert_eq!((rows.len(), rows[1], rows[63]), (64, 64, 4032));
    }
}
