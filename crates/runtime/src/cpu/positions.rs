//! Outputs with a row per position.
#![expect(unsafe_code, reason = "tasks share one output; each writes its own rows and columns")]

use std::ops::Range;

use half::{bf16, f16};
use rayon::prelude::*;
use rowloom_codegen::DType;
use rowloom_codegen::ir::{NodeId, Op};

use super::bound::{Bound, Moved};
use super::numbers::Stored;
use super::target::Target;
use super::tiling::{Tiling, pieces_of};

/// Bytes that one task writes: enough to forget the cost of a task.
const TASK_BYTES: u64 = 1 << 19;

/// Columns of a task where values are computed: the scratch stays in the first cache.
const COMPUTED: u64 = 2048;

/// Writes the value of each `(node, target)` pair.
pub(super) fn run(bound: &Bound<'_>, tiling: &Tiling, values: &[(NodeId, Target<'_>)]) {
    let hidden = bound.spec.hidden;
    let tasks: Vec<(usize, Range<u64>, Range<u64>)> = values
        .iter()
        .enumerate()
        .flat_map(|(at, (node, target))| {
            let default = if is_move(bound, *node) { hidden } else { COMPUTED };
            let width = tiling.columns.unwrap_or(default).min(hidden);
            let rows = (TASK_BYTES / (width * target.layout().ty.bytes())).clamp(1, bound.positions);
            let pieces = pieces_of(bound.positions, rows);
            pieces.flat_map(move |piece| pieces_of(hidden, width).map(move |columns| (at, piece.clone(), columns)))
        })
        .collect();
    tasks.into_par_iter().for_each(|(at, positions, columns)| {
        let (node, target) = &values[at];
        match bound.kernel.node(*node).op {
            Op::Read { .. } | Op::Gather { .. } => moves(bound, *node, target, positions, &columns),
            Op::Cast { value } => match bound.stored(*node) {
                DType::F32 => computed::<f32>(bound, value, target, positions, &columns),
                DType::F16 => computed::<f16>(bound, value, target, positions, &columns),
                DType::Bf16 => computed::<bf16>(bound, value, target, positions, &columns),
            },
            Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => {
                unreachable!("the verifier returns rows that are moved or cast")
            }
        }
    });
}

fn is_move(bound: &Bound<'_>, node: NodeId) -> bool {
    match bound.kernel.node(node).op {
        Op::Read { .. } | Op::Gather { .. } => true,
        Op::Cast { .. } | Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => false,
    }
}

fn moves(bound: &Bound<'_>, node: NodeId, target: &Target<'_>, positions: Range<u64>, columns: &Range<u64>) {
    for position in positions {
        // SAFETY: the tasks of one output cut its positions and columns into disjoint parts.
        let to = unsafe { target.part(position, columns) };
        match bound.moved(node, position, columns) {
            Some(Moved::Copy(from)) => to.copy_from_slice(from),
            Some(Moved::Zero) | None => to.fill(0),
        }
    }
}

/// Rounds the f32 value of `node`.
fn computed<E: Stored>(
    bound: &Bound<'_>,
    node: NodeId,
    target: &Target<'_>,
    positions: Range<u64>,
    columns: &Range<u64>,
) {
    let mut values = vec![0.0; (columns.end - columns.start) as usize];
    for position in positions {
        bound.row_f32(node, position, columns, &mut values);
        // SAFETY: the tasks of one output cut its positions and columns into disjoint parts.
        let to = unsafe { target.part(position, columns) };
        for (to, value) in bytemuck::cast_slice_mut(to).iter_mut().zip(&values) {
            *to = E::round(*value);
        }
    }
}
