//! The text form, written. One line per thing, in the order of [`Kernel`]'s fields.

use std::fmt;

use super::{FloatType, IndexType, Input, InputKind, Kernel, Node, Op, OutputKind, RowExpr, Shape, ValueType};
use crate::ir::Direction;
use crate::schedule::Tile;

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {} {}", self.name, self.direction)?;
        writeln!(f, "order block = {}, accumulate = {}", self.order.block, self.order.accumulate)?;
        tile(f, Direction::Forward, &self.tiles.forward)?;
        tile(f, Direction::Backward, &self.tiles.backward)?;
        for param in &self.floats {
            match param.default {
                None => writeln!(f, "float {}", param.name)?,
                Some(ty) => writeln!(f, "float {} = {}", param.name, self.float_text(ty))?,
            }
        }
        for name in &self.ints {
            writeln!(f, "int {name}")?;
        }
        for name in &self.counts {
            writeln!(f, "rows {name}")?;
        }
        for input in &self.inputs {
            writeln!(f, "input {}: {}", input.name, self.input_text(input))?;
        }
        for (at, row) in self.rows.iter().enumerate() {
            writeln!(f, "row r{at}: {} = {}", row.rows.text(&self.counts), self.row_text(row))?;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            write!(f, "v{at}")?;
            if let Some(origin) = node.origin {
                write!(f, " of {origin}")?;
            }
            writeln!(f, ": {} = {}", self.value_text(node), self.op_text(&node.op))?;
        }
        for output in &self.outputs {
            let kind = match output.kind {
                OutputKind::Rows(ty) => format!("rows<{}>", self.float_text(ty)),
                OutputKind::Table { ty, rows } => {
                    format!("table<{}, {}>", self.float_text(ty), rows.text(&self.counts))
                }
            };
            let values: Vec<String> = output.values.iter().map(ToString::to_string).collect();
            writeln!(f, "output {}: {kind} = [{}]", output.name, values.join(", "))?;
        }
        Ok(())
    }
}

fn tile(f: &mut fmt::Formatter<'_>, direction: Direction, tile: &Tile) -> fmt::Result {
    for (field, values) in &tile.fields {
        writeln!(f, "tile {direction} {field} = [{}]", values.join(", "))?;
    }
    Ok(())
}

impl Kernel {
    /// A float type as it reads in the text form.
    pub fn float_text(&self, ty: FloatType) -> &str {
        match ty {
            FloatType::Param(param) => &self.floats[param.index()].name,
            FloatType::Fixed(fixed) => fixed.name(),
        }
    }

    /// An integer type as it reads in the text form.
    pub fn int_text(&self, ty: IndexType) -> &str {
        match ty {
            IndexType::Param(param) => &self.ints[param.index()],
            IndexType::Fixed(fixed) => fixed.name(),
        }
    }

    /// A row expression as the user would write it.
    pub fn row_text(&self, row: &RowExpr) -> String {
        let mut terms: Vec<String> = row
            .terms
            .iter()
            .map(|&(index, factor)| {
                let name = &self.inputs[index.index()].name;
                if factor == 1 { name.clone() } else { format!("{name} * {factor}") }
            })
            .collect();
        if row.offset != 0 || terms.is_empty() {
            terms.push(row.offset.to_string());
        }
        terms.join(" + ")
    }

    /// The type of an input as it reads in the text form.
    pub fn input_text(&self, input: &Input) -> String {
        let one = match input.kind {
            InputKind::Rows(ty) => format!("rows<{}>", self.float_text(ty)),
            InputKind::Table { ty, rows, chunks } => {
                format!("table<{}, {}, {chunks}>", self.float_text(ty), rows.text(&self.counts))
            }
            InputKind::Index { ty, bound, pad } => {
                let pad = pad.map_or(String::new(), |pad| format!(", pad = {pad}"));
                format!("index<{}, {}{pad}>", self.int_text(ty), bound.text(&self.counts))
            }
        };
        if input.count == 1 { one } else { format!("[{one}; {}]", input.count) }
    }

    fn value_text(&self, node: &Node) -> String {
        let ty = match node.ty {
            ValueType::Stored(ty) => self.float_text(ty),
            ValueType::F32 => "f32",
            ValueType::Accumulator => "acc",
        };
        // A stored f32 and the f32 of arithmetic read alike but are different types.
        let ty = match node.ty {
            ValueType::Stored(FloatType::Fixed(_)) => format!("stored {ty}"),
            ValueType::Stored(FloatType::Param(_)) | ValueType::F32 | ValueType::Accumulator => ty.to_owned(),
        };
        match node.shape {
            Shape::Rows => format!("rows<{ty}>"),
            Shape::Table(rows) => format!("table<{ty}, {}>", rows.text(&self.counts)),
        }
    }

    fn op_text(&self, op: &Op) -> String {
        let name = |input: super::InputId| &self.inputs[input.index()].name;
        match *op {
            Op::Read { input, element } => format!("read {}[{element}]", name(input)),
            Op::Gather { table, chunk, row } => format!("gather {}[{chunk}] at {row}", name(table)),
            Op::Cast { value } => format!("cast {value}"),
            Op::Add { left, right } => format!("add {left}, {right}"),
            Op::SegmentSum { value, row } => format!("segment_sum {value} at {row}"),
            Op::Zero => "zero".to_owned(),
        }
    }
}
