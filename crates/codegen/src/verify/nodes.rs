//! Shapes and types of each op.

use super::{Faults, Place};
use crate::ir::{InputKind, Kernel, Node, NodeId, Op, RowExpr, RowId, Shape, ValueType};

pub(super) fn nodes(kernel: &Kernel, faults: &mut Faults) {
    for (at, node) in kernel.nodes.iter().enumerate() {
        let place = Place::Node(NodeId(at as u32));
        if node.op.operands().iter().any(|operand| operand.index() >= at) {
            faults.add(place, "a value is used before it is computed");
        } else if let Err(message) = node_fits(kernel, node) {
            faults.add(place, message);
        }
    }
}

fn node_fits(kernel: &Kernel, node: &Node) -> Result<(), String> {
    let expected = match node.op {
        Op::Read { input, element } => {
            let Some(read) = kernel.inputs.get(input.index()) else { return Err("no such input".to_owned()) };
            let InputKind::Rows(ty) = read.kind else {
                return Err(format!("`{}` is not rows; read a table through an index", read.name));
            };
            if element >= read.count {
                return Err(format!("`{}` has no tensor {element}", read.name));
            }
            (Shape::Rows, ValueType::Stored(ty))
        }
        Op::Gather { table, chunk, row } => {
            let row = row_of(kernel, row)?;
            let Some(read) = kernel.inputs.get(table.index()) else { return Err("no such input".to_owned()) };
            let InputKind::Table { ty, rows, chunks } = read.kind else {
                return Err(format!("`{}` is not a table", read.name));
            };
            if chunk >= chunks {
                return Err(format!("`{}` has {chunks} chunks, so there is no chunk {chunk}", read.name));
            }
            if row.rows != rows {
                return Err(format!("`{}` is read through a row expression for another number of rows", read.name));
            }
            (Shape::Rows, ValueType::Stored(ty))
        }
        Op::Cast { value } => {
            let value = kernel.node(value);
            let fits = match (value.ty, node.ty) {
                (ValueType::Stored(_), ValueType::F32) | (ValueType::F32, ValueType::Stored(_)) => {
                    value.shape == Shape::Rows
                }
                (ValueType::Accumulator, ValueType::Stored(_)) => matches!(value.shape, Shape::Table(_)),
                (ValueType::Stored(_) | ValueType::F32 | ValueType::Accumulator, _) => false,
            };
            if !fits {
                return Err("this cast goes between types that have none".to_owned());
            }
            (value.shape, node.ty)
        }
        Op::Add { left, right } => {
            let (left, right) = (kernel.node(left), kernel.node(right));
            let ty = match left.shape {
                Shape::Rows => ValueType::F32,
                Shape::Table(_) => ValueType::Accumulator,
            };
            if (left.shape, left.ty) != (right.shape, right.ty) || left.ty != ty {
                return Err("only values of one shape are added, in f32 or in the accumulator".to_owned());
            }
            (left.shape, ty)
        }
        Op::SegmentSum { value, row } => {
            let row = row_of(kernel, row)?;
            let value = kernel.node(value);
            if value.shape != Shape::Rows {
                return Err("segment_sum sums rows, not a table".to_owned());
            }
            (Shape::Table(row.rows), ValueType::Accumulator)
        }
        Op::Zero => match node.shape {
            Shape::Table(_) if matches!(node.ty, ValueType::Stored(_)) => (node.shape, node.ty),
            Shape::Table(_) | Shape::Rows => return Err("only a stored table can be zero throughout".to_owned()),
        },
    };
    if expected == (node.shape, node.ty) { Ok(()) } else { Err("shape or type do not fit the operation".to_owned()) }
}

fn row_of(kernel: &Kernel, row: RowId) -> Result<&RowExpr, String> {
    kernel.rows.get(row.index()).ok_or_else(|| "no such row expression".to_owned())
}
