//! Plans on the CPU.

use rayon::prelude::*;
use rowloom_codegen::IntType;
use rowloom_codegen::cuda::PlanArray;

use super::{RowPlan, RowShape, Term, Unfilled};
use crate::cpu::Tiling;
use crate::element::ElementType;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::{AnyView, Bytes, BytesMut};

/// Positions validated by one task.
const PIECE: usize = 1 << 14;

pub(super) fn build(
    plan: Unfilled,
    tiling: &Tiling,
    shape: &RowShape,
    indices: &[AnyView<'_>],
) -> Result<RowPlan, Error> {
    let rows = tiling.install(|| validated_rows(shape, indices, plan.positions))??;
    of_rows(plan, &rows)
}

/// The plan of a batch.
pub(super) fn repeat(plan: Unfilled, stream: &Stream, of: &RowPlan) -> Result<RowPlan, Error> {
    let one = of.array(PlanArray::Rows).to_vec::<u32>(stream)?;
    let mut rows = array(plan.positions)?;
    for sequence in rows.chunks_exact_mut(one.len()) {
        sequence.copy_from_slice(&one);
    }
    of_rows(plan, &rows)
}

/// The plan of rows that have been checked.
fn of_rows(mut plan: Unfilled, rows: &[u32]) -> Result<RowPlan, Error> {
    let Unfilled { positions, rows: row_count, block, layout, .. } = plan;
    // Sorted in the host's memory, and then copied, the rows too.
    promised(2 * HostPlan::most_bytes(positions, row_count, block) + 4 * positions)?;
    let HostPlan { order, segment_start, block_start, partial_start, block_row } =
        HostPlan::sort(rows, row_count, block)?;
    let BytesMut::Host(state) = plan.state.view_mut().bytes else { unreachable!("the stream is the CPU's") };
    let state: &mut [u32] = bytemuck::cast_slice_mut(state);
    let arrays = [rows, &order, &segment_start, &block_start, &partial_start, &block_row];
    for (array, from) in PlanArray::ALL.into_iter().zip(arrays) {
        let start = layout.start(array) as usize;
        state[start..start + from.len()].copy_from_slice(from);
    }
    let last = row_count as usize;
    let (blocks, partials, placed) = (block_start[last], partial_start[last], segment_start[last]);
    Ok(plan.filled(blocks.into(), partials.into(), positions - u64::from(placed)))
}

/// The row of each position, or [`PlanArray::NO_ROW`] where an index is its pad.
/// The shape must have passed [`RowShape::check`].
pub(crate) fn validated_rows(shape: &RowShape, indices: &[AnyView<'_>], positions: u64) -> Result<Vec<u32>, Error> {
    let columns: Vec<Column<'_>> = indices.iter().map(Column::of).collect();
    let mut rows = array(positions)?;
    // Pieces go in order and the first error in that order is reported, so it is the smallest position's.
    let faults: Vec<Option<Error>> = rows
        .par_chunks_mut(PIECE)
        .enumerate()
        .map(|(piece, rows)| validate(shape, &columns, (piece * PIECE) as u64, rows).err())
        .collect();
    match faults.into_iter().flatten().next() {
        Some(fault) => Err(fault),
        None => Ok(rows),
    }
}

fn validate(shape: &RowShape, columns: &[Column<'_>], first: u64, rows: &mut [u32]) -> Result<(), Error> {
    for (position, row) in (first..).zip(rows) {
        let mut sum = shape.offset;
        let mut padded = false;
        for (term, column) in shape.terms.iter().zip(columns) {
            let value = column.at(position);
            match u64::try_from(value) {
                // The bounds keep the sum below R, and R below 2^32: nothing wraps.
                Ok(index) if index < term.bound => sum += term.factor * index,
                _ if term.pad == Some(value) => padded = true,
                _ => return Err(fault(term, position, value)),
            }
        }
        *row = if padded { PlanArray::NO_ROW } else { sum as u32 };
    }
    Ok(())
}

/// The error of one index at one position.
pub(crate) fn fault(term: &Term, position: u64, value: i64) -> Error {
    let help = (value == -1 && term.pad.is_none())
        .then_some("declare the index as `Index<_, _, { pad = -1 }>` if -1 marks positions that have no row");
    Error::Index { argument: term.name.clone(), position, value, bound: term.bound, pad: term.pad, help }
}

/// An index on the CPU.
struct Column<'a> {
    bytes: &'a [u8],
    ty: IntType,
    offset: u64,
    stride: u64,
}

impl<'a> Column<'a> {
    fn of(view: &AnyView<'a>) -> Column<'a> {
        let (Bytes::Host(bytes), ElementType::Int(ty)) = (view.bytes, view.layout.ty) else {
            unreachable!("RowShape::check has refused other devices and types");
        };
        Column { bytes, ty, offset: view.layout.offset, stride: view.layout.row_stride }
    }

    fn at(&self, position: u64) -> i64 {
        let at = (self.offset + position * self.stride) as usize;
        match self.ty {
            IntType::U8 => self.bytes[at].into(),
            IntType::I32 => bytemuck::cast_slice::<u8, i32>(&self.bytes[..(at + 1) * 4])[at].into(),
            IntType::I64 => bytemuck::cast_slice::<u8, i64>(&self.bytes[..(at + 1) * 8])[at],
        }
    }
}

/// An array of the host's, all zero.
fn array(length: u64) -> Result<Vec<u32>, Error> {
    bytemuck::allocation::try_zeroed_vec(length as usize).map_err(|()| out_of_memory(4 * length))
}

/// Fails where the host would not give this many bytes at once. Many systems promise one array
/// after another, and end the program when it fills them.
fn promised(bytes: u64) -> Result<(), Error> {
    let mut whole = Vec::<u8>::new();
    whole.try_reserve_exact(bytes as usize).map_err(|_| out_of_memory(bytes))?;
    // An allocation that nobody sees may be left out.
    std::hint::black_box(&whole);
    Ok(())
}

fn out_of_memory(bytes: u64) -> Error {
    Error::OutOfMemory { device: "the host".to_owned(), bytes }
}

/// The arrays of a plan in the host's memory; [`PlanArray`] says what each holds.
pub(crate) struct HostPlan {
    pub(crate) order: Vec<u32>,
    pub(crate) segment_start: Vec<u32>,
    block_start: Vec<u32>,
    partial_start: Vec<u32>,
    block_row: Vec<u32>,
}

impl HostPlan {
    /// Bytes that its arrays take at most, those of sorting included.
    fn most_bytes(positions: u64, row_count: u64, block: u32) -> u64 {
        4 * (positions + 3 * (row_count + 2) + positions / u64::from(block) + row_count)
    }

    /// A stable counting sort of positions by row.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn sort(rows: &[u32], row_count: u64, block: u32) -> Result<HostPlan, Error> {
        promised(HostPlan::most_bytes(rows.len() as u64, row_count, block))?;
        let row_count = row_count as usize;
        // The last bucket is of positions without a row.
        let bucket = |row: u32| (row as usize).min(row_count);
        let mut next = array(row_count as u64 + 2)?;
        for &row in rows {
            next[bucket(row) + 1] += 1;
        }
        for bucket in 1..next.len() {
            next[bucket] += next[bucket - 1];
        }
        let mut segment_start = array(row_count as u64 + 1)?;
        segment_start.copy_from_slice(&next[..=row_count]);
        let mut order = array(rows.len() as u64)?;
        for (position, &row) in (0_u32..).zip(rows) {
            let next = &mut next[bucket(row)];
            order[*next as usize] = position;
            *next += 1;
        }
        // Sorted, its memory is free for the starts of blocks.
        let (mut block_start, mut partial_start) = (next, array(row_count as u64 + 1)?);
        block_start.truncate(row_count + 1);
        block_start[0] = 0;
        let (mut blocks, mut partials) = (0, 0);
        for (row, segment) in segment_start.windows(2).enumerate() {
            let of_row = (segment[1] - segment[0]).div_ceil(block).max(1);
            blocks += of_row;
            partials += if of_row > 1 { of_row } else { 0 };
            (block_start[row + 1], partial_start[row + 1]) = (blocks, partials);
        }
        let mut block_row = array(blocks.into())?;
        for (row, blocks) in (0_u32..).zip(block_start.windows(2)) {
            block_row[blocks[0] as usize..blocks[1] as usize].fill(row);
        }
        Ok(HostPlan { order, segment_start, block_start, partial_start, block_row })
    }
}
