//! Sums over positions: gradients of tables, and forward segment sums.
//!
//! The published checks look at outputs with a position axis, so they are
//! silent about these. Here a table row is compared with the same row when only
//! its own positions are packed, when all other positions change places, under
//! every schedule, and again and again.

use rand::seq::SliceRandom;
use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Direction, Op, OutputKind, RowId};
use rowloom_op_adaln::random;
use rowloom_runtime::baseline::{Counting, Found, RowList};
use rowloom_runtime::{AnyTensor, AnyView};

use crate::error::{Error, Result};

use super::Measurement;
use super::calls::{Outputs, Part, compare};
use super::case::{Case, has_sums};
use super::inputs::Batch;
use super::placed::Inputs;
use super::protocol::Protocol;
use super::schema::TableGradient;

/// Most rows of a table that are looked at one by one.
const ROWS_LOOKED_AT: u64 = 64;

/// Calls of which [`repeatable`] compares the sums.
const REPEATABLE_CALLS: usize = 3;

/// Whether equal calls give equal sums over positions, at every batch and seed of the protocol.
pub fn repeatable(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<bool> {
    let stream = measurement.baseline.stream();
    let mut repeatable = true;
    for kernel in measurement.case.kernels().into_iter().filter(|kernel| has_sums(kernel)) {
        let direction = kernel.direction;
        for (&positions, &seed) in
            protocol.all_rows.iter().flat_map(|batch| protocol.seeds.iter().map(move |seed| (batch, seed)))
        {
            for columns in measurement.slices(positions) {
                let batch = measurement.case.batch(kernel, positions, seed, columns)?;
                let inputs = Inputs::place(stream, &batch)?;
                let inputs = inputs.views()?;
                let mut first = Outputs::new(measurement, direction, &inputs)?;
                first.run(measurement, direction, &inputs, positions, None)?;
                let mut again = Outputs::new(measurement, direction, &inputs)?;
                let mut found = Found::new(stream, 1).map_err(Error::failed)?;
                let same = SameRows::new(measurement, &first)?;
                for _ in 1..REPEATABLE_CALLS {
                    again.run(measurement, direction, &inputs, positions, None)?;
                    same.compare(measurement, &again, &first, None, &mut found, 0)?;
                }
                repeatable &= found.read(stream).map_err(Error::failed)?.iter().all(Option::is_none);
            }
        }
    }
    Ok(repeatable)
}

/// Steps of the progress bar that the checks of one implementation take.
pub fn steps(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<u64> {
    let mut steps = 0;
    for kernel in measurement.case.kernels().into_iter().filter(|kernel| has_sums(kernel)) {
        let rows = looked_at(table_rows(measurement.case, kernel)?).len() as u64;
        steps += (2 * rows + protocol.repeats as u64) * measurement.slices(protocol.largest()).len() as u64;
    }
    Ok(steps)
}

/// The checks of one implementation of one kernel with sums over positions, slice of columns
/// after slice. A flag is set where any slice differs.
pub struct SumChecks {
    direction: Direction,
    rows: Vec<u64>,
    isolated: Vec<bool>,
    permuted: Vec<bool>,
    schedules: Vec<bool>,
    repeats: Vec<bool>,
}

impl SumChecks {
    /// Nothing compared yet.
    pub fn new(case: &Case, direction: Direction, protocol: &Protocol) -> Result<SumChecks> {
        let rows = looked_at(table_rows(case, case.kernel(direction))?);
        Ok(SumChecks {
            direction,
            isolated: vec![false; rows.len()],
            permuted: vec![false; rows.len()],
            schedules: Vec::new(),
            repeats: vec![false; protocol.repeats],
            rows,
        })
    }

    /// Compares everything on some columns of a batch at the largest S; `inputs` is where it lies.
    pub fn slice(&mut self, measurement: &Measurement<'_>, batch: &Batch, inputs: &[Vec<AnyView<'_>>]) -> Result<()> {
        let (direction, positions) = (self.direction, batch.positions as u64);
        let stream = measurement.baseline.stream();
        let mut full = Outputs::new(measurement, direction, inputs)?;
        full.run(measurement, direction, inputs, positions, None)?;
        let mut other = Outputs::new(measurement, direction, inputs)?;
        let same = SameRows::new(measurement, &full)?;
        let slots = |count: usize| Found::new(stream, count as u64).map_err(Error::failed);
        let settle = |differ: &mut [bool], found: &Found| -> Result<()> {
            for (differ, found) in differ.iter_mut().zip(found.read(stream).map_err(Error::failed)?) {
                *differ |= found.is_some();
            }
            Ok(())
        };

        let mut found = slots(self.repeats.len())?;
        for slot in 0..self.repeats.len() {
            other.run(measurement, direction, inputs, positions, None)?;
            same.compare(measurement, &other, &full, None, &mut found, slot as u64)?;
            measurement.progress.inc(1);
        }
        settle(&mut self.repeats, &found)?;

        let schedules = measurement.implementation.schedules(direction, inputs, &full.views(positions)?)?;
        self.schedules.resize(schedules, false);
        let mut found = slots(schedules)?;
        for slot in 0..schedules {
            other.run(measurement, direction, inputs, positions, Some(slot))?;
            same.compare(measurement, &other, &full, None, &mut found, slot as u64)?;
        }
        settle(&mut self.schedules, &found)?;
        drop(other);

        let row_of = RowOf::new(measurement.case.kernel(direction), batch);
        let mut part = Part::new(measurement, direction, inputs, positions)?;
        let zeros = Zeros::new(measurement, &full)?;
        let (mut isolated, mut permuted) = (slots(self.rows.len())?, slots(self.rows.len())?);
        for (slot, &row) in (0..).zip(&self.rows) {
            let (own, others) = row_of.split(row);
            if own.is_empty() {
                zeros.compare(measurement, &full, row, &mut isolated, slot)?;
            } else {
                part.run(measurement, RowList::new(stream, &own).map_err(Error::failed)?.all())?;
                same.compare(measurement, &part.outputs, &full, Some(row), &mut isolated, slot)?;
            }
            measurement.progress.inc(1);
            let shuffled = RowList::new(stream, &shuffle_others(&own, others, row)).map_err(Error::failed)?;
            part.run(measurement, shuffled.all())?;
            same.compare(measurement, &part.outputs, &full, Some(row), &mut permuted, slot)?;
            measurement.progress.inc(1);
        }
        settle(&mut self.isolated, &isolated)?;
        settle(&mut self.permuted, &permuted)
    }

    /// Adds what was found.
    pub fn add_to(&self, result: &mut TableGradient) {
        let count = |differ: &[bool]| differ.iter().filter(|differ| **differ).count() as u64;
        result.isolated_rows += self.isolated.len() as u64;
        result.isolated_rows_differ += count(&self.isolated);
        result.other_rows_permuted += self.permuted.len() as u64;
        result.other_rows_permuted_differ += count(&self.permuted);
        result.schedules += self.schedules.len() as u64;
        result.schedules_differ += count(&self.schedules);
        result.repeats += self.repeats.len() as u64;
        result.repeats_differ += count(&self.repeats);
    }
}

/// Rows of sums, each compared with itself in another call.
struct SameRows(Counting);

impl SameRows {
    fn new(measurement: &Measurement<'_>, sums: &Outputs) -> Result<SameRows> {
        let most = sums.sums().map(AnyTensor::rows).max().unwrap_or(0);
        Ok(SameRows(Counting::new(measurement.baseline.stream(), most as u32).map_err(Error::failed)?))
    }

    /// All rows, or one, of all sums.
    fn compare(
        &self,
        measurement: &Measurement<'_>,
        left: &Outputs,
        right: &Outputs,
        row: Option<u64>,
        found: &mut Found,
        slot: u64,
    ) -> Result<()> {
        for (left, right) in left.sums().zip(right.sums()) {
            let rows = row.map_or(0..right.rows(), |row| row..row + 1);
            if rows.end > right.rows() {
                continue;
            }
            let (left, right) = (left.view().rows(rows.clone()), right.view());
            let list = self.0.first(rows.end).and_then(|list| list.part(rows)).map_err(Error::failed)?;
            compare(measurement, std::iter::once((left.map_err(Error::failed)?, right)), list, found, slot)?;
        }
        Ok(())
    }
}

/// A row of +0.0 for each tensor of sums.
struct Zeros(Vec<AnyTensor>, RowList);

impl Zeros {
    fn new(measurement: &Measurement<'_>, sums: &Outputs) -> Result<Zeros> {
        let stream = measurement.baseline.stream();
        let row = |tensor: &AnyTensor| AnyTensor::zeros(stream, tensor.element_type(), 1, tensor.columns());
        let rows = sums.sums().map(row).collect::<std::result::Result<_, _>>().map_err(Error::failed)?;
        Ok(Zeros(rows, RowList::new(stream, &[0]).map_err(Error::failed)?))
    }

    /// Whether a row to which no position adds is +0.0 in every bit.
    fn compare(
        &self,
        measurement: &Measurement<'_>,
        sums: &Outputs,
        row: u64,
        found: &mut Found,
        slot: u64,
    ) -> Result<()> {
        for (sums, zeros) in sums.sums().zip(&self.0) {
            if row < sums.rows() {
                let row = sums.view().rows(row..row + 1).map_err(Error::failed)?;
                compare(measurement, std::iter::once((row, zeros.view())), self.1.all(), found, slot)?;
            }
        }
        Ok(())
    }
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

fn table_rows(case: &Case, kernel: &Verified) -> Result<u64> {
    let mut most = 0;
    for output in &kernel.outputs {
        if let OutputKind::Table { rows, .. } = output.kind {
            most = case.rows(rows)?.max(most);
        }
    }
    Ok(most)
}

/// All rows, or as many as are looked at, evenly spread.
fn looked_at(rows: u64) -> Vec<u64> {
    let count = rows.min(ROWS_LOOKED_AT);
    (0..count).map(|number| number * rows / count).collect()
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
