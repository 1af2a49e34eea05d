//! The nodes of a backward, one helper per thing it writes.

use std::collections::HashMap;

use super::{chunks, rows_in_order, stored};
use crate::ir::{
    Direction, FloatId, FloatParam, FloatType, Input, InputId, InputKind, Kernel, Node, NodeId, Op, Output, OutputKind,
    RowId, Shape, ValueType,
};

/// The cotangent of one use of a value.
#[derive(Clone, Copy)]
pub(super) enum Cotangent {
    /// Of rows: a node of the backward.
    Rows(NodeId),
    /// Of a table chunk: an input of the backward and its chunk.
    Chunk(InputId, u32),
}

pub(super) struct Builder<'k> {
    declared: &'k Kernel,
    pub kernel: Kernel,
    /// The cotangent input of each declared output.
    pub cotangent_inputs: Vec<InputId>,
    /// Per declared node, the last use first.
    cotangents: Vec<Vec<Cotangent>>,
    /// The gradient of each tensor of a rows input.
    read_gradients: HashMap<(InputId, u32), NodeId>,
    /// Cotangents of each table chunk at each row expression, the last use first.
    gather_gradients: HashMap<(InputId, u32, RowId), (NodeId, Vec<Cotangent>)>,
}

impl<'k> Builder<'k> {
    pub fn new(declared: &'k Kernel) -> Builder<'k> {
        let mut kernel = Kernel {
            direction: Direction::Backward,
            inputs: vec![],
            nodes: vec![],
            outputs: vec![],
            ..declared.clone()
        };
        let mut index_ids = HashMap::new();
        for (at, input) in declared.inputs.iter().enumerate() {
            if input.is_index() {
                index_ids.insert(InputId(at as u32), InputId(kernel.inputs.len() as u32));
                kernel.inputs.push(input.clone());
            }
        }
        for row in &mut kernel.rows {
            for (index, _) in &mut row.terms {
                *index = index_ids[index];
            }
        }
        let mut cotangent_inputs = vec![];
        for output in &declared.outputs {
            let (kind, count) = match output.kind {
                OutputKind::Rows(ty) => (InputKind::Rows(ty), output.values.len() as u32),
                OutputKind::Table { ty, rows } => {
                    (InputKind::Table { ty, rows, chunks: output.values.len() as u32 }, 1)
                }
            };
            cotangent_inputs.push(InputId(kernel.inputs.len() as u32));
            kernel.inputs.push(Input { name: format!("d_{}", output.name), kind, count });
        }
        Builder {
            declared,
            kernel,
            cotangent_inputs,
            cotangents: vec![vec![]; declared.nodes.len()],
            read_gradients: HashMap::new(),
            gather_gradients: HashMap::new(),
        }
    }

    pub fn take_cotangents(&mut self, at: usize) -> Vec<Cotangent> {
        std::mem::take(&mut self.cotangents[at])
    }

    pub fn give(&mut self, value: NodeId, cotangents: Vec<Cotangent>) {
        self.cotangents[value.index()].extend(cotangents);
    }

    fn push(&mut self, origin: NodeId, op: Op, shape: Shape, ty: ValueType) -> NodeId {
        let id = NodeId(self.kernel.nodes.len() as u32);
        self.kernel.nodes.push(Node { op, shape, ty, origin: Some(origin) });
        id
    }

    pub fn read(&mut self, origin: NodeId, input: InputId, element: u32, ty: FloatType) -> NodeId {
        self.push(origin, Op::Read { input, element }, Shape::Rows, ValueType::Stored(ty))
    }

    /// The rows of an output's cotangent that a segment sum's positions went to.
    pub fn gather(&mut self, at: usize, cotangent: Cotangent, row: RowId) -> Cotangent {
        let Cotangent::Chunk(table, chunk) = cotangent else { unreachable!("a table's cotangent is a table's chunk") };
        let ty = ValueType::Stored(stored(&self.kernel, table));
        Cotangent::Rows(self.push(NodeId(at as u32), Op::Gather { table, chunk, row }, Shape::Rows, ty))
    }

    /// Adds the cotangents of one value, the last use first, in f32. One alone stays as stored.
    pub fn sum(&mut self, at: usize, cotangents: Vec<Cotangent>) -> NodeId {
        let origin = NodeId(at as u32);
        let nodes = cotangents.into_iter().map(|cotangent| {
            let Cotangent::Rows(node) = cotangent else { unreachable!("the cotangent of rows is rows") };
            node
        });
        let nodes: Vec<NodeId> = nodes.collect();
        let Some((&first, rest)) = nodes.split_first() else { unreachable!("summed only where there is a cotangent") };
        rest.iter().fold(first, |sum, &next| {
            let left = self.in_f32(origin, sum);
            let right = self.in_f32(origin, next);
            self.push(origin, Op::Add { left, right }, Shape::Rows, ValueType::F32)
        })
    }

    fn in_f32(&mut self, origin: NodeId, value: NodeId) -> NodeId {
        match self.kernel.node(value).ty {
            ValueType::F32 => value,
            ValueType::Stored(_) | ValueType::Accumulator => {
                self.push(origin, Op::Cast { value }, Shape::Rows, ValueType::F32)
            }
        }
    }

    pub fn read_gradient(&mut self, input: InputId, element: u32, value: NodeId) {
        // A kernel may read a tensor twice; its uses add up like those of one value.
        let sum = match self.read_gradients.remove(&(input, element)) {
            None => value,
            Some(later) => {
                let at = self.kernel.node(value).origin.map_or(0, NodeId::index);
                self.sum(at, vec![Cotangent::Rows(later), Cotangent::Rows(value)])
            }
        };
        self.read_gradients.insert((input, element), sum);
    }

    pub fn gather_gradient(&mut self, table: InputId, chunk: u32, row: RowId, at: usize, cotangent: Cotangent) {
        let entry = self.gather_gradients.entry((table, chunk, row)).or_insert((NodeId(at as u32), vec![]));
        entry.1.push(cotangent);
    }

    /// Writes the gradient of one declared input as an output.
    pub fn output(&mut self, input: InputId) {
        let name = format!("d_{}", self.declared.inputs[input.index()].name);
        let ty = stored(self.declared, input);
        let chunks = chunks(self.declared, input);
        let output = match self.declared.inputs[input.index()].kind {
            InputKind::Table { rows, .. } => {
                let param = FloatType::Param(FloatId(self.kernel.floats.len() as u32));
                self.kernel.floats.push(FloatParam { name: name.clone(), default: Some(ty) });
                let shape = Shape::Table(rows);
                let values = (0..chunks).map(|chunk| self.table_chunk(input, chunk, shape, param)).collect();
                Output { name, kind: OutputKind::Table { ty: param, rows }, values }
            }
            InputKind::Rows(_) | InputKind::Index { .. } => {
                let values = (0..chunks).map(|element| self.rows_tensor(input, element, ty)).collect();
                Output { name, kind: OutputKind::Rows(ty), values }
            }
        };
        self.kernel.outputs.push(output);
    }

    fn table_chunk(&mut self, table: InputId, chunk: u32, shape: Shape, ty: FloatType) -> NodeId {
        let mut total = None;
        let mut origin = NodeId(0);
        for row in rows_in_order(self.declared) {
            let Some((at, cotangents)) = self.gather_gradients.remove(&(table, chunk, row)) else { continue };
            origin = at;
            let value = self.sum(origin.index(), cotangents);
            let sum = self.push(origin, Op::SegmentSum { value, row }, shape, ValueType::Accumulator);
            total = Some(match total {
                None => sum,
                Some(left) => self.push(origin, Op::Add { left, right: sum }, shape, ValueType::Accumulator),
            });
        }
        match total {
            None => self.push(origin, Op::Zero, shape, ValueType::Stored(ty)),
            Some(value) => self.push(origin, Op::Cast { value }, shape, ValueType::Stored(ty)),
        }
    }

    fn rows_tensor(&mut self, input: InputId, element: u32, ty: FloatType) -> NodeId {
        let value = self.read_gradients[&(input, element)];
        let node = self.kernel.node(value);
        if node.ty == ValueType::Stored(ty) {
            return value;
        }
        let origin = node.origin.unwrap_or(NodeId(0));
        let value = self.in_f32(origin, value);
        self.push(origin, Op::Cast { value }, Shape::Rows, ValueType::Stored(ty))
    }
}
