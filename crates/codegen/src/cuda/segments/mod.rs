//! Sums over positions.
//!
//! Chunks of an output whose sums have the same form (the same row expressions,
//! the same arithmetic, other tensors or chunks) are one group: one entry, with
//! the chunk in the block number. The order of every sum is the declaration's;
//! which block computes it is the schedule's.

mod blocks;
mod chain;
mod entry;
mod group;
mod hand_on;
mod registers;
mod rows;

use super::{Context, Writer};
use crate::schedule::{SegmentsKind, SegmentsSchedule};
pub(crate) use registers::resident;

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
            SegmentsKind::Rows => rows::rows(context, group, &name, schedule),
            SegmentsKind::Blocks => blocks::blocks(context, group, &name, schedule, blocks::Fold::Last),
            SegmentsKind::TwoPass => blocks::blocks(context, group, &name, schedule, blocks::Fold::Second),
            SegmentsKind::HandOn => hand_on::hand_on(context, group, &name, schedule),
        }
    }
}
