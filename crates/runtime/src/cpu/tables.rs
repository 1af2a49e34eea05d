//! Outputs with a row per table row: ordered sums over positions.
#![expect(unsafe_code, reason = "tasks share one output; each writes its own rows and columns")]

use std::ops::Range;

use half::{bf16, f16};
use rayon::prelude::*;
use rowloom_codegen::ir::{NodeId, Op, RowId};
use rowloom_codegen::{Accumulate, DType};

use super::bound::{Bound, Moved};
use super::numbers::{Accumulator, Stored};
use super::target::Target;
use super::tiling::{Tiling, pieces_of};

/// Columns of a task: chain, total and four rows stay in the first cache.
const COLUMNS: u64 = 1024;

/// Narrowest task that is made to keep every core busy.
const NARROWEST: u64 = 64;

/// Groups that the rows of a table are cut into.
const ROW_GROUPS: u64 = 64;

/// Positions that are added in one pass over a chain.
const PASS: usize = 4;

/// Writes the chunks of each `(values, target)` pair.
pub(super) fn run(bound: &Bound<'_>, tiling: &Tiling, outputs: &[(&[NodeId], Target<'_>)]) {
    match bound.kernel.order.accumulate {
        Accumulate::F32 => run_in::<f32>(bound, tiling, outputs),
        Accumulate::F64 => run_in::<f64>(bound, tiling, outputs),
    }
}

fn run_in<A: Accumulator>(bound: &Bound<'_>, tiling: &Tiling, outputs: &[(&[NodeId], Target<'_>)]) {
    let hidden = bound.spec.hidden;
    let chunks: u64 = outputs.iter().map(|(values, _)| values.len() as u64).sum();
    let width = tiling.columns.unwrap_or_else(|| default_columns(hidden, chunks)).min(hidden);
    let mut tasks = Vec::new();
    for (at, (values, target)) in outputs.iter().enumerate() {
        let rows = target.layout().rows;
        for group in pieces_of(rows, rows.div_ceil(ROW_GROUPS)) {
            for chunk in 0..values.len() {
                tasks.extend(pieces_of(hidden, width).map(|columns| (at, chunk, group.clone(), columns)));
            }
        }
    }
    tasks.into_par_iter().for_each(|(at, chunk, rows, columns)| {
        let (values, target) = &outputs[at];
        let task = Task { bound, columns, _accumulator: std::marker::PhantomData::<A> };
        match bound.stored(values[chunk]) {
            DType::F32 => task.store::<f32>(values[chunk], chunk, target, rows),
            DType::F16 => task.store::<f16>(values[chunk], chunk, target, rows),
            DType::Bf16 => task.store::<bf16>(values[chunk], chunk, target, rows),
        }
    });
}

fn default_columns(hidden: u64, chunks: u64) -> u64 {
    let wanted = 4 * rayon::current_num_threads() as u64;
    let mut width = COLUMNS;
    while width > NARROWEST && chunks * hidden.div_ceil(width) < wanted {
        width /= 2;
    }
    width
}

/// Some columns of one chunk.
struct Task<'a, 'b, A> {
    bound: &'a Bound<'b>,
    columns: Range<u64>,
    _accumulator: std::marker::PhantomData<A>,
}

impl<A: Accumulator> Task<'_, '_, A> {
    fn width(&self) -> usize {
        (self.columns.end - self.columns.start) as usize
    }

    fn store<E: Stored>(&self, node: NodeId, chunk: usize, target: &Target<'_>, rows: Range<u64>) {
        let first = chunk as u64 * self.bound.spec.hidden;
        let columns = first + self.columns.start..first + self.columns.end;
        let mut sum = vec![A::default(); self.width()];
        for row in rows {
            // SAFETY: the tasks of one output cut its rows, chunks and columns into disjoint parts.
            let to: &mut [E] = bytemuck::cast_slice_mut(unsafe { target.part(row, &columns) });
            match self.bound.kernel.node(node).op {
                Op::Zero => to.fill(E::round(0.0)),
                Op::Cast { value } => {
                    self.table_row(value, row, &mut sum);
                    for (to, sum) in to.iter_mut().zip(&sum) {
                        *to = sum.stored_as();
                    }
                }
                Op::Read { .. } | Op::Gather { .. } | Op::Add { .. } | Op::SegmentSum { .. } => {
                    unreachable!("the verifier stores a table by a cast or as zero")
                }
            }
        }
    }

    /// A table value in the accumulator at one row.
    fn table_row(&self, node: NodeId, row: u64, out: &mut [A]) {
        match self.bound.kernel.node(node).op {
            Op::SegmentSum { value, row: expression } => self.segment(value, expression, row, out),
            Op::Add { left, right } => {
                self.table_row(left, row, out);
                let mut added = vec![A::default(); out.len()];
                self.table_row(right, row, &mut added);
                for (sum, added) in out.iter_mut().zip(&added) {
                    *sum += *added;
                }
            }
            Op::Read { .. } | Op::Gather { .. } | Op::Cast { .. } | Op::Zero => {
                unreachable!("the verifier keeps accumulators to sums and additions")
            }
        }
    }

    /// The ordered sum of a row's positions: chains from +0.0 of `block`
    /// positions, folded left to right from +0.0.
    fn segment(&self, value: NodeId, expression: RowId, row: u64, total: &mut [A]) {
        let rows = &self.bound.rows[expression.index()];
        let (start, end) = (rows.segment_start[row as usize], rows.segment_start[row as usize + 1]);
        let positions = &rows.order[start as usize..end as usize];
        let moves = match self.bound.kernel.node(value).op {
            Op::Read { .. } | Op::Gather { .. } => Some(self.bound.stored(value)),
            Op::Cast { .. } | Op::Add { .. } => None,
            Op::SegmentSum { .. } | Op::Zero => unreachable!("the verifier sums rows alone"),
        };
        let mut chain = vec![A::default(); total.len()];
        let mut summand = vec![0.0; total.len()];
        total.fill(A::default());
        for block in positions.chunks(self.bound.kernel.order.block as usize) {
            chain.fill(A::default());
            match moves {
                Some(DType::F32) => self.chain_moved::<f32>(value, block, &mut chain),
                Some(DType::Bf16) => self.chain_moved::<bf16>(value, block, &mut chain),
                // Half precision widens a slice at a time much faster than an element at a time.
                Some(DType::F16) | None => {
                    for &position in block {
                        self.bound.row_f32(value, position.into(), &self.columns, &mut summand);
                        add(&mut chain, [&summand[..]]);
                    }
                }
            }
            for (total, chain) in total.iter_mut().zip(&chain) {
                *total += *chain;
            }
        }
    }

    /// Adds rows that are moves straight from their tensors, several a pass: the
    /// additions to one column stay in the order of the positions.
    fn chain_moved<E: Direct>(&self, value: NodeId, block: &[u32], chain: &mut [A]) {
        let of = |&position: &u32| match self.bound.moved(value, position.into(), &self.columns) {
            Some(Moved::Copy(bytes)) => Some(bytemuck::cast_slice::<u8, E>(bytes)),
            // A chain is never -0.0, so that adding +0.0 changes nothing.
            Some(Moved::Zero) | None => None,
        };
        let mut passes = block.chunks_exact(PASS);
        for pass in &mut passes {
            if let [Some(a), Some(b), Some(c), Some(d)] = [of(&pass[0]), of(&pass[1]), of(&pass[2]), of(&pass[3])] {
                add(chain, [a, b, c, d]);
            } else {
                pass.iter().filter_map(of).for_each(|row| add(chain, [row]));
            }
        }
        passes.remainder().iter().filter_map(of).for_each(|row| add(chain, [row]));
    }
}

/// A stored type that widens in a bit operation or none.
trait Direct: Stored {
    fn to_f32(self) -> f32;
}

impl Direct for f32 {
    fn to_f32(self) -> f32 {
        self
    }
}

impl Direct for bf16 {
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

fn add<A: Accumulator, E: Direct, const N: usize>(chain: &mut [A], rows: [&[E]; N]) {
    let rows = rows.map(|row| &row[..chain.len()]);
    for (column, chain) in chain.iter_mut().enumerate() {
        for row in rows {
            *chain += A::of(row[column].to_f32());
        }
    }
}
