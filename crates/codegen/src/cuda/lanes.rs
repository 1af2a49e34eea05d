//! How many columns one access of every tensor of a computation covers.

use crate::ir::{InputKind, Kernel, NodeId, Op, OutputKind};
use crate::spec::{Access, Spec};

/// Of outputs with a row per position, and what they are computed from.
pub(crate) fn positions(kernel: &Kernel, spec: &Spec) -> u32 {
    let outputs = kernel.outputs.iter().zip(&spec.outputs).filter_map(|(output, access)| match output.kind {
        OutputKind::Rows(ty) => Some((output, of(*access, spec.float(ty).bytes()))),
        OutputKind::Table { .. } => None,
    });
    let all = outputs.flat_map(|(output, own)| inputs(kernel, spec, output.values.clone()).into_iter().chain([own]));
    all.min().unwrap_or(1)
}

/// Of what is summed over positions; where nothing is, of the outputs.
pub(crate) fn segments(kernel: &Kernel, spec: &Spec) -> u32 {
    let ids = (0..kernel.nodes.len() as u32).map(NodeId);
    let sums = ids.filter(|id| matches!(kernel.node(*id).op, Op::SegmentSum { .. })).collect();
    let outputs = kernel.outputs.iter().zip(&spec.outputs).filter_map(|(output, access)| match output.kind {
        OutputKind::Table { ty, .. } => Some(of(*access, spec.float(ty).bytes())),
        OutputKind::Rows(_) => None,
    });
    inputs(kernel, spec, sums).or(outputs.min()).unwrap_or(1)
}

/// The fewest columns that an access of some input beneath these nodes covers.
fn inputs(kernel: &Kernel, spec: &Spec, mut walk: Vec<NodeId>) -> Option<u32> {
    let mut fewest = None;
    while let Some(id) = walk.pop() {
        let op = &kernel.node(id).op;
        walk.extend(op.operands());
        let input = match *op {
            Op::Read { input, .. } | Op::Gather { table: input, .. } => input,
            Op::Cast { .. } | Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => continue,
        };
        if let InputKind::Rows(ty) | InputKind::Table { ty, .. } = kernel.inputs[input.index()].kind {
            let own = of(spec.inputs[input.index()], spec.float(ty).bytes());
            fewest = Some(fewest.map_or(own, |fewest: u32| fewest.min(own)));
        }
    }
    fewest
}

/// Columns of one access of a tensor.
pub(crate) fn of(access: Access, element_bytes: u32) -> u32 {
    access.vector_bytes / element_bytes
}
