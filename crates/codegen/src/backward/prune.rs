//! Leaves out what serves no output, and numbers the rest anew.

use std::collections::HashMap;

use crate::ir::{
    CountId, Extent, FloatId, FloatType, IndexType, InputId, InputKind, IntId, Kernel, NodeId, Op, OutputKind, RowId,
    Shape, ValueType, live,
};

pub(super) fn prune(mut kernel: Kernel) -> Kernel {
    let live = live(&kernel);
    let nodes = renumber(&live.nodes);
    let rows = renumber(&live.rows);
    let inputs = renumber(&live.inputs);
    keep(&mut kernel.nodes, &live.nodes);
    keep(&mut kernel.rows, &live.rows);
    keep(&mut kernel.inputs, &live.inputs);
    let node = |id: &mut NodeId| id.0 = nodes[&id.0];
    let row = |id: &mut RowId| id.0 = rows[&id.0];
    let input = |id: &mut InputId| id.0 = inputs[&id.0];
    for one in &mut kernel.nodes {
        match &mut one.op {
            Op::Read { input: id, .. } => input(id),
            Op::Gather { table, row: id, .. } => {
                input(table);
                row(id);
            }
            Op::Cast { value } => node(value),
            Op::Add { left, right } => {
                node(left);
                node(right);
            }
            Op::SegmentSum { value, row: id } => {
                node(value);
                row(id);
            }
            Op::Zero => {}
        }
    }
    for expression in &mut kernel.rows {
        expression.terms.iter_mut().for_each(|(index, _)| input(index));
    }
    kernel.outputs.iter_mut().flat_map(|output| &mut output.values).for_each(node);
    prune_params(kernel)
}

/// Type parameters and row counts that nothing kept refers to.
fn prune_params(mut kernel: Kernel) -> Kernel {
    let mut floats = vec![false; kernel.floats.len()];
    let mut ints = vec![false; kernel.ints.len()];
    let mut counts = vec![false; kernel.counts.len()];
    visit(
        &mut kernel,
        |param| floats[param.index()] = true,
        |param| ints[param.index()] = true,
        |count| counts[count.index()] = true,
    );
    // The default of a kept parameter is kept; defaults refer to earlier ones.
    for at in (0..floats.len()).rev() {
        if let (true, Some(FloatType::Param(other))) = (floats[at], kernel.floats[at].default) {
            floats[other.index()] = true;
        }
    }
    let (float_ids, int_ids, count_ids) = (renumber(&floats), renumber(&ints), renumber(&counts));
    visit(
        &mut kernel,
        |param| param.0 = float_ids[&param.0],
        |param| param.0 = int_ids[&param.0],
        |count| count.0 = count_ids[&count.0],
    );
    keep(&mut kernel.floats, &floats);
    keep(&mut kernel.ints, &ints);
    keep(&mut kernel.counts, &counts);
    for param in &mut kernel.floats {
        if let Some(FloatType::Param(other)) = &mut param.default {
            other.0 = float_ids[&other.0];
        }
    }
    kernel
}

fn visit(
    kernel: &mut Kernel,
    mut float: impl FnMut(&mut FloatId),
    mut int: impl FnMut(&mut IntId),
    mut count: impl FnMut(&mut CountId),
) {
    let mut float = |ty: &mut FloatType| match ty {
        FloatType::Param(param) => float(param),
        FloatType::Fixed(_) => {}
    };
    let mut extent = |extent: &mut Extent| extent.count.iter_mut().for_each(&mut count);
    for input in &mut kernel.inputs {
        match &mut input.kind {
            InputKind::Rows(ty) => float(ty),
            InputKind::Table { ty, rows, .. } => {
                float(ty);
                extent(rows);
            }
            InputKind::Index { ty, bound, .. } => {
                match ty {
                    IndexType::Param(param) => int(param),
                    IndexType::Fixed(_) => {}
                }
                extent(bound);
            }
        }
    }
    kernel.rows.iter_mut().for_each(|row| extent(&mut row.rows));
    for node in &mut kernel.nodes {
        match &mut node.ty {
            ValueType::Stored(ty) => float(ty),
            ValueType::F32 | ValueType::Accumulator => {}
        }
        match &mut node.shape {
            Shape::Rows => {}
            Shape::Table(rows) => extent(rows),
        }
    }
    for output in &mut kernel.outputs {
        match &mut output.kind {
            OutputKind::Rows(ty) => float(ty),
            OutputKind::Table { ty, rows } => {
                float(ty);
                extent(rows);
            }
        }
    }
}

fn renumber(keep: &[bool]) -> HashMap<u32, u32> {
    let kept = keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(at, _)| at as u32);
    kept.zip(0..).collect()
}

fn keep<T>(list: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    list.retain(|_| *keep.next().expect("one flag per element"));
}
