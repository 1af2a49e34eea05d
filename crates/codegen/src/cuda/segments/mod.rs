//! Sums over positions.
//!
//! Chunks of an output whose sums have the same form (the same row expressions,
//! the same arithmetic, other tensors or chunks) are one group: one entry, with
//! the chunk in the block number. The order of every sum is the declaration's;
//! which block computes it is the schedule's.

mod chain;
mod entries;
mod group;

use super::{Context, Writer};
use crate::ir::{InputKind, Kernel, Op, OutputKind};
use crate::schedule::{SegmentsKind, SegmentsSchedule};
use crate::spec::Spec;

pub(super) fn write(context: &mut Context<'_>, schedule: SegmentsSchedule) {
    let groups = group::groups(context);
    let outputs: Vec<usize> = groups.iter().map(|group| group.output).collect();
    for (at, group) in groups.iter().enumerate() {
        let output = &context.kernel.outputs[group.output];
        let mut name = format!("{}_{}_{}", context.kernel.name, context.kernel.direction, output.name);
        let before = outputs[..at].iter().filter(|other| **other == group.output).count();
        if before > 0 {
            name += &format!("_{before}");
        }
        // A chunk that nothing is summed into has no blocks of positions to divide.
        let kind = if group.terms.is_empty() { SegmentsKind::Rows } else { schedule.kind };
        match kind {
            SegmentsKind::Rows => entries::rows(context, group, &name, schedule),
            SegmentsKind::Blocks => entries::blocks(context, group, &name, schedule, entries::Fold::Last),
            SegmentsKind::TwoPass => entries::blocks(context, group, &name, schedule, entries::Fold::Second),
        }
    }
}

/// Columns that one access of every tensor under a sum covers.
pub(crate) fn lanes(kernel: &Kernel, spec: &Spec) -> u32 {
    let mut walk: Vec<_> = kernel.nodes.iter().filter(|node| matches!(node.op, Op::SegmentSum { .. })).collect();
    let mut lanes = None;
    while let Some(node) = walk.pop() {
        walk.extend(node.op.operands().into_iter().map(|id| kernel.node(id)));
        let input = match node.op {
            Op::Read { input, .. } | Op::Gather { table: input, .. } => input,
            Op::Cast { .. } | Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => continue,
        };
        if let InputKind::Rows(ty) | InputKind::Table { ty, .. } = kernel.inputs[input.index()].kind {
            let own = crate::schedule::lanes(spec.inputs[input.index()], spec.float(ty).bytes());
            lanes = Some(lanes.map_or(own, |lanes: u32| lanes.min(own)));
        }
    }
    // Where nothing is summed the stores decide.
    let outputs = kernel.outputs.iter().zip(&spec.outputs).filter_map(|(output, access)| match output.kind {
        OutputKind::Table { ty, .. } => Some(crate::schedule::lanes(*access, spec.float(ty).bytes())),
        OutputKind::Rows(_) => None,
    });
    lanes.or(outputs.min()).unwrap_or(1)
}
