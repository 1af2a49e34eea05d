//! The published checks of batch invariance: the same position in another
//! batch must have the same bytes.
//!
//! They look at outputs and gradients with a position axis; sums over positions
//! are [`super::table_gradient`]'s.

use rand::seq::{SliceRandom, index};
use rowloom_codegen::ir::{Direction, OutputKind};
use rowloom_op_adaln::random;
use rowloom_runtime::baseline::{Found, RowList};

use crate::error::{Error, Result};

use super::Measurement;
use super::calls::{Outputs, Part, compare};
use super::placed::Inputs;
use super::protocol::Protocol;
use super::schema::{AllRows, Failure, FullVsSub, Keyed, Sweep};

/// Most failures that a sweep names.
const NAMED_FAILURES: usize = 8;

/// Some positions of a batch as a call of its own.
struct SubBatch {
    /// Positions of the whole, in the order of the call.
    positions: Vec<u32>,
    /// Which position of the call to compare; `None` for all.
    compare: Option<usize>,
}

/// Which sub-batches differ from the whole in an output with a position axis.
fn differing(
    measurement: &Measurement<'_>,
    direction: Direction,
    positions: u64,
    seed: u64,
    sub_batches: &[SubBatch],
) -> Result<Vec<bool>> {
    let kernel = measurement.case.kernel(direction);
    let mut differ = vec![false; sub_batches.len()];
    let has_positions = kernel.outputs.iter().any(|output| matches!(output.kind, OutputKind::Rows(_)));
    if !has_positions {
        measurement.progress.inc(sub_batches.len() as u64);
        return Ok(differ);
    }
    let stream = measurement.baseline.stream();
    let lists: Vec<u32> = sub_batches.iter().flat_map(|sub_batch| &sub_batch.positions).copied().collect();
    let lists = RowList::new(stream, &lists).map_err(Error::failed)?;
    let most = sub_batches.iter().map(|sub_batch| sub_batch.positions.len() as u64).max().unwrap_or(0);
    let slices = measurement.slices(positions);
    for (number, columns) in slices.iter().enumerate() {
        let batch = measurement.case.batch(kernel, positions, seed, columns.clone())?;
        let inputs = Inputs::place(stream, &batch)?;
        let inputs = inputs.views()?;
        let mut full = Outputs::new(measurement, direction, &inputs)?;
        full.run(measurement, direction, &inputs, positions, None)?;
        let mut part = Part::new(measurement, direction, &inputs, most)?;
        let mut found = Found::new(stream, sub_batches.len() as u64).map_err(Error::failed)?;
        let mut start = 0;
        for (slot, sub_batch) in sub_batches.iter().enumerate() {
            let end = start + sub_batch.positions.len() as u64;
            let rows = lists.all().part(start..end).map_err(Error::failed)?;
            start = end;
            part.run(measurement, rows)?;
            let compared = match sub_batch.compare {
                Some(at) => at as u64..at as u64 + 1,
                None => 0..rows.count(),
            };
            let rows = rows.part(compared.clone()).map_err(Error::failed)?;
            for (sub, full) in part.outputs.with_positions().zip(full.with_positions()) {
                let sub = sub.view().rows(compared.clone()).map_err(Error::failed)?;
                compare(measurement, std::iter::once((sub, full.view())), rows, &mut found, slot as u64)?;
            }
            if number + 1 == slices.len() {
                measurement.progress.inc(1);
            }
        }
        for (differ, found) in differ.iter_mut().zip(found.read(stream).map_err(Error::failed)?) {
            *differ |= found.is_some();
        }
    }
    Ok(differ)
}

fn count(differ: &[bool]) -> u64 {
    differ.iter().filter(|differ| **differ).count() as u64
}

/// Each position alone against the full batch.
pub fn all_rows(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<Keyed<AllRows>> {
    let mut result = Vec::new();
    for &batch in &protocol.all_rows {
        let alone: Vec<SubBatch> =
            (0..batch as u32).map(|position| SubBatch { positions: vec![position], compare: None }).collect();
        let mut counts = AllRows::default();
        for &seed in &protocol.seeds {
            counts.rows += batch;
            counts.fwd_differ += count(&differing(measurement, Direction::Forward, batch, seed, &alone)?);
            counts.rowgrad_differ += count(&differing(measurement, Direction::Backward, batch, seed, &alone)?);
        }
        result.push((batch.to_string(), counts));
    }
    Ok(Keyed(result))
}

/// A large batch against pieces of it.
pub fn full_vs_sub(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<FullVsSub> {
    let full = protocol.full_batch;
    let pieces = protocol
        .sub_batch_sizes
        .iter()
        .flat_map(|&size| protocol.starts(size).map(move |start| start as u32..full.min(start + size) as u32));
    let pieces: Vec<SubBatch> = pieces.map(|piece| SubBatch { positions: piece.collect(), compare: None }).collect();
    let mut result = FullVsSub {
        full_batch: full,
        sub_batch_sizes: protocol.sub_batch_sizes.clone(),
        sub_batches: 0,
        fwd_differ: 0,
        rowgrad_differ: 0,
    };
    for &seed in &protocol.full_batch_seeds {
        let forward = differing(measurement, Direction::Forward, full, seed, &pieces)?;
        let backward = differing(measurement, Direction::Backward, full, seed, &pieces)?;
        result.sub_batches += pieces.len() as u64;
        result.fwd_differ += count(&forward);
        result.rowgrad_differ += count(&backward);
    }
    Ok(result)
}

/// Probes in batches of many sizes, at several places among other positions.
pub fn sweep(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<Sweep> {
    let mut result = Sweep {
        batch_sizes: protocol.batch_sizes.clone(),
        probe_rows: protocol.probe_rows(),
        comparisons: 0,
        differ: 0,
        first_failures: Vec::new(),
    };
    let whole = protocol.sweep_batch;
    for &seed in &protocol.seeds {
        let calls = sweep_calls(protocol, seed);
        let forward = differing(measurement, Direction::Forward, whole, seed, &calls)?;
        let backward = differing(measurement, Direction::Backward, whole, seed, &calls)?;
        for (call, (forward, backward)) in calls.iter().zip(forward.into_iter().zip(backward)) {
            result.comparisons += 1;
            if !(forward || backward) {
                continue;
            }
            result.differ += 1;
            if let (Some(position), true) = (call.compare, result.first_failures.len() < NAMED_FAILURES) {
                let batch = call.positions.len() as u64;
                let row = u64::from(call.positions[position]);
                result.first_failures.push(Failure { seed, batch, position: position as u64, row });
            }
        }
    }
    Ok(result)
}

fn sweep_calls(protocol: &Protocol, seed: u64) -> Vec<SubBatch> {
    let whole = protocol.sweep_batch as usize;
    let mut generator = random::generator(seed, random::CHOICES);
    let mut calls = Vec::new();
    for probe in protocol.probe_rows() {
        for &size in &protocol.batch_sizes {
            for placement in Protocol::placements(size) {
                // Positions other than the probe, numbered without it.
                let mut others = index::sample(&mut generator, whole - 1, size as usize - 1).into_vec();
                others.shuffle(&mut generator);
                let others = others.into_iter().map(|other| other as u32 + u32::from(other as u64 >= probe));
                let mut positions: Vec<u32> = others.collect();
                positions.insert(placement as usize, probe as u32);
                calls.push(SubBatch { positions, compare: Some(placement as usize) });
            }
        }
        let reversed = (0..whole as u32).rev().collect();
        calls.push(SubBatch { positions: reversed, compare: Some(whole - 1 - probe as usize) });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_the_sweep_has_its_probe_once_and_where_it_says() {
        let protocol = Protocol::quick(vec![257]);
        let calls = sweep_calls(&protocol, 3);
        assert_eq!(calls.len() as u64 * 3, protocol.comparisons());
        let probes = protocol.probe_rows();
        for (call, probe) in calls.iter().zip(probes.iter().flat_map(|probe| vec![*probe as u32; 49])) {
            assert_eq!(call.positions[call.compare.expect("a probe")], probe);
            let mut positions = call.positions.clone();
            positions.sort_unstable();
            positions.dedup();
            assert_eq!(positions.len(), call.positions.len(), "no position twice");
            assert!(positions.iter().all(|&position| position < 64));
        }
    }

    #[test]
    fn other_positions_depend_on_the_seed() {
        let protocol = Protocol::quick(vec![257]);
        let calls = |seed| sweep_calls(&protocol, seed).into_iter().map(|call| call.positions).collect::<Vec<_>>();
        assert_eq!(calls(3), calls(3));
        assert_ne!(calls(3), calls(4));
    }
}
