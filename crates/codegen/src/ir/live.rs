//! What serves an output.

use super::{Kernel, NodeId, Op};

/// Which nodes, row expressions and inputs an output depends on.
pub(crate) struct Live {
    pub nodes: Vec<bool>,
    pub rows: Vec<bool>,
    pub inputs: Vec<bool>,
}

/// Walks the nodes backwards from the outputs. Operands must come before uses.
pub(crate) fn live(kernel: &Kernel) -> Live {
    let mut live = Live {
        nodes: vec![false; kernel.nodes.len()],
        rows: vec![false; kernel.rows.len()],
        inputs: vec![false; kernel.inputs.len()],
    };
    let mut mark: Vec<NodeId> = kernel.outputs.iter().flat_map(|output| output.values.clone()).collect();
    while let Some(id) = mark.pop() {
        if std::mem::replace(&mut live.nodes[id.index()], true) {
            continue;
        }
        let op = &kernel.node(id).op;
        mark.extend(op.operands());
        if let Some(row) = op.row() {
            live.rows[row.index()] = true;
            for (index, _) in &kernel.rows[row.index()].terms {
                live.inputs[index.index()] = true;
            }
        }
        match *op {
            Op::Read { input, .. } | Op::Gather { table: input, .. } => live.inputs[input.index()] = true,
            Op::Cast { .. } | Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => {}
        }
    }
    live
}
