//! Chunks of one output whose sums have the same form.

use super::super::value::Leaf;
use super::Context;
use crate::ir::{NodeId, Op, OutputKind, RowId};

/// One sum over positions: what is summed, and by which row expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    pub row: RowId,
    pub value: NodeId,
}

/// Chunks that share one entry.
pub(super) struct Group {
    /// Which output.
    pub output: usize,
    /// Which of its chunks, ascending.
    pub chunks: Vec<u32>,
    /// The terms of the first chunk, in the order in which they are added.
    pub terms: Vec<Term>,
    /// Per term and leaf of the first chunk, the leaf of each chunk.
    pub leaves: Vec<Vec<(NodeId, Vec<Leaf>)>>,
}

/// What two chunks must share to share an entry: text with the leaves left out.
fn form(context: &Context<'_>, terms: &[Term]) -> Vec<String> {
    terms
        .iter()
        .map(|term| {
            let leaves: Vec<String> = context
                .leaves(term.value)
                .values()
                .map(|leaf| format!("{} {:?} {}", context.leaf_type(*leaf), leaf.row, context.leaf_lanes(*leaf)))
                .collect();
            let order: Vec<NodeId> = context.leaves(term.value).into_keys().collect();
            let place =
                |leaf: NodeId| order.iter().position(|id| *id == leaf).map_or(String::new(), |at| at.to_string());
            format!("{} {} {leaves:?}", term.row, context.column_of(term.value, &place))
        })
        .collect()
}

pub(super) fn groups(context: &Context<'_>) -> Vec<Group> {
    let mut groups: Vec<(Vec<String>, Group)> = Vec::new();
    for (output, declared) in context.kernel.outputs.iter().enumerate() {
        if let OutputKind::Rows(_) = declared.kind {
            continue;
        }
        for (chunk, &value) in declared.values.iter().enumerate() {
            let terms = terms(context, value);
            let form = form(context, &terms);
            let leaves = terms.iter().map(|term| context.leaves(term.value));
            let found = groups.iter_mut().find(|(other, group)| group.output == output && *other == form);
            if let Some((_, group)) = found {
                group.chunks.push(chunk as u32);
                for (of_term, own) in group.leaves.iter_mut().zip(leaves) {
                    of_term.iter_mut().zip(own.into_values()).for_each(|((_, all), leaf)| all.push(leaf));
                }
                continue;
            }
            let leaves = leaves.map(|own| own.into_iter().map(|(id, leaf)| (id, vec![leaf])).collect()).collect();
            groups.push((form, Group { output, chunks: vec![chunk as u32], terms, leaves }));
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The sums that are added into a table's chunk, first to last; none for zero.
fn terms(context: &Context<'_>, value: NodeId) -> Vec<Term> {
    match context.kernel.node(value).op {
        Op::Zero => vec![],
        Op::Cast { value } => terms(context, value),
        Op::Add { left, right } => {
            let mut all = terms(context, left);
            all.extend(terms(context, right));
            all
        }
        Op::SegmentSum { value, row } => vec![Term { row, value }],
        Op::Read { .. } | Op::Gather { .. } => unreachable!("a table's chunk is a sum over positions"),
    }
}
