//! What the entries of every kind share.

use super::super::{Context, Count, Entry, Param, PlanArray, Step};
use super::chain::Chain;
use super::group::Group;
use super::{SegmentsKind, SegmentsSchedule, Writer};

/// Rows of the output.
pub(super) fn rows_of(context: &Context<'_>, group: &Group) -> crate::ir::Extent {
    match context.kernel.outputs[group.output].kind {
        crate::ir::OutputKind::Table { rows, .. } => rows,
        crate::ir::OutputKind::Rows(_) => unreachable!("a sum over positions is a table"),
    }
}

/// The tensors summed, the plans they are summed by, and the output.
pub(super) fn params(group: &Group, arrays: &[PlanArray]) -> Vec<Param> {
    let mut params = Vec::new();
    let mut add = |param| {
        if !params.contains(&param) {
            params.push(param);
        }
    };
    for leaf in group.leaves.iter().flatten().flat_map(|(_, leaves)| leaves) {
        add(leaf.pointer());
        add(leaf.stride());
    }
    for leaf in group.leaves.iter().flatten().flat_map(|(_, leaves)| leaves) {
        if let Some(row) = leaf.row {
            add(Param::Plan { row, array: PlanArray::Rows });
        }
    }
    for term in &group.terms {
        arrays.iter().for_each(|&array| add(Param::Plan { row: term.row, array }));
    }
    let output = group.output as u32;
    add(Param::Output { output, tensor: 0 });
    add(Param::OutputStride { output, tensor: 0 });
    params
}

pub(super) fn finish(
    context: &mut Context<'_>,
    writer: Writer,
    name: &str,
    schedule: SegmentsSchedule,
    grid: Count,
    params: Vec<Param>,
    what: &str,
) {
    context.writer = writer;
    context.entries.push((name.to_owned(), what.to_owned()));
    let resident = (schedule.kind == SegmentsKind::HandOn).then_some(schedule.resident);
    context.steps.push(Step::Launch(Entry {
        name: name.to_owned(),
        threads: schedule.threads,
        grid,
        early: true,
        resident,
        params,
    }));
}

/// `base + (slot * chunks + chunk) * H + column`: where a block's sums lie in scratch memory.
pub(super) fn sums_at(chain: &Chain<'_, '_>, base: &str, slot: &str) -> String {
    let chunks = chain.group.chunks.len();
    let chunk = if chunks > 1 { format!("({slot} * {chunks} + chunk)") } else { slot.to_owned() };
    format!("{base} + {chunk} * {} + column", chain.context.spec.hidden)
}

/// Sums that one access of scratch memory moves.
pub(super) fn sums_width(chain: &Chain<'_, '_>) -> u32 {
    (16 / chain.context.kernel.order.accumulate.bytes()).min(chain.schedule.columns)
}

/// Stores a thread's sums to scratch memory.
pub(super) fn store_sums(chain: &Chain<'_, '_>, writer: &mut Writer, sums: &str, name: &str, address: &str) {
    writer.block(chain.inside(), |writer| {
        let ty = chain.accumulator();
        writer.line(format!("{ty}* const {name} = {address};"));
        chain.pieces(writer, sums_width(chain), |lane| format!("{sums}[{lane}]"), ty, name, "rl_store");
    });
}
