//! Values with a row per position, as C++: loads of the tensors they depend on,
//! and one expression per column.

use std::collections::BTreeMap;

use super::names::{self, float};
use super::{Context, Param};
use crate::dtype::{Accumulate, DType};
use crate::ir::{InputId, InputKind, NodeId, Op, RowId, ValueType};
use crate::schedule::PositionsSchedule;

/// A tensor read: rows at the position, or a chunk of a table row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    pub input: InputId,
    /// Tensor of a rows input; chunk of a table.
    pub element: u32,
    /// The row expression of a gather.
    pub row: Option<RowId>,
}

impl Leaf {
    /// The tensor behind it: its number among the tensors of its input.
    pub fn tensor(self) -> u32 {
        if self.row.is_some() { 0 } else { self.element }
    }

    pub fn pointer(self) -> Param {
        Param::Input { input: self.input, element: self.tensor() }
    }

    pub fn stride(self) -> Param {
        Param::InputStride { input: self.input, element: self.tensor() }
    }
}

/// One output tensor and its value.
pub(super) struct Target {
    pub output: u32,
    pub tensor: u32,
    pub value: NodeId,
}

/// The primitive that stores outputs.
pub(super) fn store(schedule: PositionsSchedule) -> &'static str {
    if schedule.streaming { "rl_store_streaming" } else { "rl_store" }
}

impl Context<'_> {
    /// The leaves of a value, by the node that reads them, in program order.
    pub fn leaves(&self, value: NodeId) -> BTreeMap<NodeId, Leaf> {
        let mut leaves = BTreeMap::new();
        let mut walk = vec![value];
        while let Some(id) = walk.pop() {
            let op = &self.kernel.node(id).op;
            match *op {
                Op::Read { input, element } => {
                    leaves.insert(id, Leaf { input, element, row: None });
                }
                Op::Gather { table, chunk, row } => {
                    leaves.insert(id, Leaf { input: table, element: chunk, row: Some(row) });
                }
                Op::Cast { .. } | Op::Add { .. } => walk.extend(op.operands()),
                Op::SegmentSum { .. } | Op::Zero => unreachable!("a sum over positions has no row per position"),
            }
        }
        leaves
    }

    /// The element type of a leaf.
    pub fn leaf_dtype(&self, leaf: Leaf) -> DType {
        match self.kernel.inputs[leaf.input.index()].kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => self.spec.float(ty),
            InputKind::Index { .. } => unreachable!("an index is no value"),
        }
    }

    /// The same as C++.
    pub fn leaf_type(&self, leaf: Leaf) -> &'static str {
        float(self.leaf_dtype(leaf))
    }

    /// One column of a value, parenthesised as the declaration computes it;
    /// `load` names one column of a leaf's.
    pub fn column_of(&self, value: NodeId, load: &dyn Fn(NodeId) -> String) -> String {
        let node = self.kernel.node(value);
        match node.op {
            Op::Read { .. } | Op::Gather { .. } => load(value),
            Op::Cast { value: from } => {
                let inner = self.column_of(from, load);
                match (self.kernel.node(from).ty, node.ty) {
                    (ValueType::Stored(ty), ValueType::F32) => names::widened(self.spec.float(ty), &inner),
                    (ValueType::F32, ValueType::Stored(ty)) => {
                        names::rounded(Accumulate::F32, self.spec.float(ty), &inner)
                    }
                    (ValueType::Stored(_) | ValueType::F32 | ValueType::Accumulator, _) => {
                        unreachable!("rows are cast to f32 or to a stored type")
                    }
                }
            }
            Op::Add { left, right } => {
                format!("({} + {})", self.column_of(left, load), self.column_of(right, load))
            }
            Op::SegmentSum { .. } | Op::Zero => unreachable!("a sum over positions has no row per position"),
        }
    }

    /// Whether a value is moved as it is.
    pub fn is_move(&self, value: NodeId) -> bool {
        matches!(self.kernel.node(value).op, Op::Read { .. } | Op::Gather { .. })
    }

    /// The C++ parameter for an argument.
    pub fn declare(&self, param: Param) -> String {
        let kernel = self.kernel;
        match param {
            Param::Input { input, element } => {
                let name = self.names.input(kernel, input, element);
                let ty = match kernel.inputs[input.index()].kind {
                    InputKind::Rows(ty) | InputKind::Table { ty, .. } => float(self.spec.float(ty)),
                    InputKind::Index { ty, .. } => names::int(self.spec.int(ty)),
                };
                format!("const {ty}* {name}")
            }
            Param::InputStride { input, element } => {
                format!("rl_u64 {}_stride", self.names.input(kernel, input, element))
            }
            Param::Output { output, tensor } => {
                let (crate::ir::OutputKind::Rows(ty) | crate::ir::OutputKind::Table { ty, .. }) =
                    kernel.outputs[output as usize].kind;
                let name = self.names.output(kernel, output as usize, tensor);
                format!("{}* {name}", float(self.spec.float(ty)))
            }
            Param::OutputStride { output, tensor } => {
                format!("rl_u64 {}_stride", self.names.output(kernel, output as usize, tensor))
            }
            Param::Positions => "rl_u64 positions".to_owned(),
            Param::Plan { row, array } => format!("const rl_u32* {}", self.plan_name(row, array)),
            Param::Blocks(_) => "rl_u64 blocks".to_owned(),
            Param::PlanPositions(_) => unreachable!("a kernel makes no plan of another"),
            Param::Scratch(part) => {
                let scratch = &self.scratch[part];
                let ty = match (scratch.name, scratch.element_bytes) {
                    ("partials" | "totals", 4) => "float",
                    ("partials" | "totals", _) => "double",
                    (_, 4) => "rl_u32",
                    (_, _) => "rl_u64",
                };
                format!("{ty}* {}", scratch.name)
            }
        }
    }

    pub fn plan_name(&self, row: RowId, array: super::PlanArray) -> String {
        let base = super::plan::array_name(array);
        // Positions are read through any expression at all, the rest through one alone in most kernels.
        if array == super::PlanArray::Rows || self.kernel.rows.len() > 1 {
            format!("{base}{}", row.0)
        } else {
            base.to_owned()
        }
    }
}
