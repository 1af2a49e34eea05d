//! The IR of one direction of one row kernel: data only.
//!
//! A kernel has inputs, row expressions (which table row a position names),
//! nodes (values, each a function of earlier nodes) and outputs. Forward and
//! backward are the same type. Ids are positions in the kernel's own lists and
//! print as they read in the text form: `v3` a node, `r0` a row expression.

mod extent;
mod live;
mod parse;
mod print;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use extent::Extent;
pub(crate) use live::live;
pub use parse::ParseError;

use crate::dtype::{Accumulate, DType, IntType};
use crate::schedule::Tile;
pub use crate::verify::{Fault, Place, Verified};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Position in the kernel's list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A value.
    NodeId, "v"
);
id!(
    /// A row expression.
    RowId, "r"
);
id!(
    /// An input; the text form uses its name.
    InputId, "input"
);
id!(
    /// A float type parameter; the text form uses its name.
    FloatId, "float"
);
id!(
    /// An integer type parameter; the text form uses its name.
    IntId, "int"
);
id!(
    /// A row count; the text form uses its name.
    CountId, "count"
);

/// Which way a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// As declared.
    Forward,
    /// Derived: cotangents in, gradients out.
    Backward,
}

/// The order of sums over positions. It is meaning: never tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// Positions of one row that form one chain. At least 1.
    pub block: u32,
    /// Type of chains, partial sums and folds.
    pub accumulate: Accumulate,
}

impl Default for Order {
    fn default() -> Self {
        Order { block: 256, accumulate: Accumulate::F32 }
    }
}

/// The declared narrowing of the schedule space, one list per direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tiles {
    /// For the kernel as declared.
    pub forward: Tile,
    /// For its derived backward.
    pub backward: Tile,
}

/// One direction of one kernel. Made by the macro, by [`Kernel::parse`] or by
/// [`crate::backward()`]; of use only once [`Kernel::verify`] has passed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The user's name for it.
    pub name: String,
    /// Declared or derived.
    pub direction: Direction,
    /// Order of sums over positions.
    pub order: Order,
    /// Declared narrowing of the schedule space.
    pub tiles: Tiles,
    /// Float type parameters.
    pub floats: Vec<FloatParam>,
    /// Integer type parameters, by name.
    pub ints: Vec<String>,
    /// Row counts, by name.
    pub counts: Vec<String>,
    /// Inputs in declaration order.
    pub inputs: Vec<Input>,
    /// Distinct row expressions, in program order.
    pub rows: Vec<RowExpr>,
    /// Values; operands come before their uses.
    pub nodes: Vec<Node>,
    /// What the kernel returns.
    pub outputs: Vec<Output>,
}

/// A float type parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatParam {
    /// Name: the user's, or `d_<table>` for the stored type of a gradient.
    pub name: String,
    /// What it is where a [`crate::Spec`] says nothing: another type. `None` for a
    /// parameter that the tensors determine.
    pub default: Option<FloatType>,
}

/// A float type: a parameter or one fixed by the declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// A type parameter.
    Param(FloatId),
    /// Always this one.
    Fixed(DType),
}

/// An integer type: a parameter or one fixed by the declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexType {
    /// A type parameter.
    Param(IntId),
    /// Always this one.
    Fixed(IntType),
}

/// A named input: `count` tensors of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The user's name, or `d_<output>` for a cotangent.
    pub name: String,
    /// What each tensor is.
    pub kind: InputKind,
    /// Tensors under this name: 1, or the length of an array of cotangents.
    pub count: u32,
}

/// Shape and type of an input tensor. S positions, H columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// (S, H).
    Rows(FloatType),
    /// (rows, chunks·H), read through a row expression.
    Table {
        /// Element type.
        ty: FloatType,
        /// Row count.
        rows: Extent,
        /// Chunks of H columns in a row.
        chunks: u32,
    },
    /// (S,), each in `0..bound`, or `pad`.
    Index {
        /// Element type.
        ty: IndexType,
        /// Exclusive bound.
        bound: Extent,
        /// The one value outside the bound that means "no row".
        pad: Option<i64>,
    },
}

/// An affine combination of indices that names a table row at each position:
/// `offset + sum of factor * index`, in `0..rows`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowExpr {
    /// Index input and its factor (at least 1), in declaration order, each input once.
    pub terms: Vec<(InputId, u64)>,
    /// Constant part.
    pub offset: u64,
    /// Exclusive bound: the row count of the tables it reads or sums into.
    pub rows: Extent,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// How it is computed.
    pub op: Op,
    /// Shape.
    pub shape: Shape,
    /// Element type.
    pub ty: ValueType,
    /// The node of the declared kernel that it was derived from; `None` there.
    pub origin: Option<NodeId>,
}

/// Shape of a value. The IR of arithmetic adds Scalar, PerRow and Vector here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// (S, H).
    Rows,
    /// (rows, H): one chunk of a table.
    Table(Extent),
}

/// Element type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// As stored in tensors; only moved, never computed with.
    Stored(FloatType),
    /// The type of arithmetic.
    F32,
    /// The accumulator of sums over positions ([`Order::accumulate`]).
    Accumulator,
}

/// How a value is computed. Each op is one row in the printer, the parser, the
/// verifier, the backward, the CPU executor, the oracle and the CUDA writer;
/// none of them has a catch-all arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// The row of a `Rows` input at the same position. A bit copy.
    Read {
        /// A `Rows` input.
        input: InputId,
        /// Which of its tensors.
        element: u32,
    },
    /// One chunk of the table row that `row` names; +0.0 where it names none. A bit copy.
    Gather {
        /// A `Table` input.
        table: InputId,
        /// Chunk of H columns.
        chunk: u32,
        /// Row of each position.
        row: RowId,
    },
    /// The value in the node's own type: exact when it widens, rounded to
    /// nearest even when it narrows. Straight-through in backward.
    Cast {
        /// What is cast.
        value: NodeId,
    },
    /// `left + right`, element by element, in the node's type (f32 or accumulator).
    Add {
        /// First operand.
        left: NodeId,
        /// Second operand.
        right: NodeId,
    },
    /// Row r of the result: the ordered sum of `value` over the positions whose row is r.
    SegmentSum {
        /// A `Rows` value, widened exactly.
        value: NodeId,
        /// Row of each position.
        row: RowId,
    },
    /// +0.0 everywhere: the gradient of a chunk that nothing reads. A `Table` value.
    Zero,
}

impl Op {
    /// Operands in program order.
    pub fn operands(&self) -> Vec<NodeId> {
        match *self {
            Op::Read { .. } | Op::Gather { .. } | Op::Zero => vec![],
            Op::Cast { value } | Op::SegmentSum { value, .. } => vec![value],
            Op::Add { left, right } => vec![left, right],
        }
    }

    /// The row expression it goes through, if any.
    pub fn row(&self) -> Option<RowId> {
        match *self {
            Op::Gather { row, .. } | Op::SegmentSum { row, .. } => Some(row),
            Op::Read { .. } | Op::Cast { .. } | Op::Add { .. } | Op::Zero => None,
        }
    }
}

/// A named output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// `out`, `out0`, … or `d_<input>` for a gradient.
    pub name: String,
    /// What it is.
    pub kind: OutputKind,
    /// The values: one per tensor for `Rows`, one per chunk for `Table`.
    pub values: Vec<NodeId>,
}

/// Shape and type of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// `values.len()` tensors of (S, H).
    Rows(FloatType),
    /// One tensor of (rows, values.len()·H).
    Table {
        /// Element type as stored.
        ty: FloatType,
        /// Row count.
        rows: Extent,
    },
}

impl Kernel {
    /// Reads the text form. Inverse of `Display`.
    pub fn parse(text: &str) -> Result<Kernel, ParseError> {
        parse::kernel(text)
    }

    /// Checks every rule of the IR and earns the type that the rest asks for.
    pub fn verify(self) -> Result<Verified, Vec<Fault>> {
        crate::verify::verify(self)
    }

    /// The input of this name.
    pub fn input(&self, name: &str) -> Option<InputId> {
        self.inputs.iter().position(|input| input.name == name).map(|at| InputId(at as u32))
    }

    /// The node of this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Whether a sum over positions goes through this row expression, so that it needs a plan.
    pub fn sums_by(&self, row: RowId) -> bool {
        self.nodes.iter().any(|node| match node.op {
            Op::SegmentSum { row: through, .. } => through == row,
            Op::Read { .. } | Op::Gather { .. } | Op::Cast { .. } | Op::Add { .. } | Op::Zero => false,
        })
    }

    /// Whether it sums over positions at all.
    pub fn sums(&self) -> bool {
        (0..self.rows.len() as u32).any(|row| self.sums_by(RowId(row)))
    }

    /// Whether an index under this row expression has a pad, so that a position may have no row.
    pub fn has_pad(&self, row: RowId) -> bool {
        let mut terms = self.rows[row.index()].terms.iter();
        terms.any(|(index, _)| matches!(self.inputs[index.index()].kind, InputKind::Index { pad: Some(_), .. }))
    }

    /// The tile of this direction.
    pub fn tile(&self) -> &Tile {
        match self.direction {
            Direction::Forward => &self.tiles.forward,
            Direction::Backward => &self.tiles.backward,
        }
    }
}

impl Input {
    /// Whether it is an index.
    pub fn is_index(&self) -> bool {
        matches!(self.kind, InputKind::Index { .. })
    }
}

impl Output {
    /// Number of tensors.
    pub fn tensors(&self) -> usize {
        match self.kind {
            OutputKind::Rows(_) => self.values.len(),
            OutputKind::Table { .. } => 1,
        }
    }
}
