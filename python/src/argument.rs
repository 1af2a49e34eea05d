//! What errors call an array, and what it must hold.

use std::fmt;

use rowloom::ElementType;
use rowloom::codegen::ir::{FloatType, IndexType, InputKind, Kernel, OutputKind};
use rowloom::codegen::{DType, IntType};

/// An array of a call. Cheap to make: its text is made when an error needs it.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'k> {
    name: &'k str,
    /// Which of several tensors.
    element: Option<u32>,
    /// Whether it is the cotangent or the gradient of what has that name.
    derivative: bool,
    pub(crate) holds: Holds,
    /// Of a table that is given: how many stretches of H columns it has; 1 otherwise.
    pub(crate) chunks: u32,
    /// What its first axis counts: the positions of an index, else rows.
    pub(crate) first_axis: &'static str,
}

/// Element types that an array may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Float,
    Int,
    One(ElementType),
}

impl<'k> Argument<'k> {
    pub(crate) const fn of(name: &'k str, holds: Holds) -> Argument<'k> {
        Argument { name, element: None, derivative: false, holds, chunks: 1, first_axis: "rows" }
    }

    /// An input as declared.
    pub(crate) fn input(kernel: &'k Kernel, at: usize) -> Argument<'k> {
        let input = &kernel.inputs[at];
        let (holds, first_axis) = match input.kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => (float(ty), "rows"),
            InputKind::Index { ty, .. } => (int(ty), "positions"),
        };
        let chunks = match input.kind {
            InputKind::Table { chunks, .. } => chunks,
            InputKind::Rows(_) | InputKind::Index { .. } => 1,
        };
        Argument { chunks, first_axis, ..Argument::of(&input.name, holds) }
    }

    /// An output as declared, all of its tensors.
    pub(crate) fn output(kernel: &'k Kernel, at: usize) -> Argument<'k> {
        let output = &kernel.outputs[at];
        let holds = match output.kind {
            OutputKind::Rows(ty) | OutputKind::Table { ty, .. } => float(ty),
        };
        Argument::of(&output.name, holds)
    }

    /// Its cotangent or gradient, which may be of another float type than it.
    pub(crate) fn derivative(self) -> Argument<'k> {
        Argument { derivative: true, holds: Holds::Float, ..self }
    }

    /// One of its tensors, where there are several.
    pub(crate) fn element(self, at: usize, of: usize) -> Argument<'k> {
        Argument { element: (of > 1).then_some(at as u32), ..self }
    }
}

impl Holds {
    /// Whether an array of this type may be given.
    pub(crate) fn includes(self, ty: ElementType) -> bool {
        match self {
            Holds::Float => matches!(ty, ElementType::Float(_)),
            Holds::Int => matches!(ty, ElementType::Int(_)),
            Holds::One(one) => ty == one,
        }
    }

    /// Whether it is one number a position.
    pub(crate) fn index(self) -> bool {
        matches!(self, Holds::Int | Holds::One(ElementType::Int(_)))
    }
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Argument { name, element, derivative, .. } = self;
        write!(f, "{}{name}", if *derivative { "d_" } else { "" })?;
        element.map_or(Ok(()), |element| write!(f, "[{element}]"))
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holds::Float => f.write_str("f32, f16 or bf16"),
            Holds::Int => f.write_str("u8, i32 or i64"),
            Holds::One(ty) => ty.fmt(f),
        }
    }
}

fn float(ty: FloatType) -> Holds {
    match ty {
        FloatType::Param(_) => Holds::Float,
        FloatType::Fixed(ty) => Holds::One(ElementType::Float(ty)),
    }
}

fn int(ty: IndexType) -> Holds {
    match ty {
        IndexType::Param(_) => Holds::Int,
        IndexType::Fixed(ty) => Holds::One(ElementType::Int(ty)),
    }
}

/// Every element type that an array may hold, by the name that NumPy and PyTorch give it.
pub(crate) const ELEMENT_TYPES: [(&str, ElementType); 6] = [
    ("float32", ElementType::Float(DType::F32)),
    ("float16", ElementType::Float(DType::F16)),
    ("bfloat16", ElementType::Float(DType::Bf16)),
    ("uint8", ElementType::Int(IntType::U8)),
    ("int32", ElementType::Int(IntType::I32)),
    ("int64", ElementType::Int(IntType::I64)),
];

/// What errors call an element type that NumPy and PyTorch give a name: as the language does, so that one sentence has
/// one way to name types.
pub(crate) fn language_name(name: &str) -> String {
    if name == "bfloat16" {
        return "bf16".to_owned();
    }
    let short = [("float", "f"), ("uint", "u"), ("int", "i")].into_iter().find_map(|(long, short)| {
        let bits = name.strip_prefix(long)?;
        (!bits.is_empty() && bits.bytes().all(|digit| digit.is_ascii_digit())).then(|| format!("{short}{bits}"))
    });
    short.unwrap_or_else(|| name.to_owned())
}

/// The name that NumPy and PyTorch give a type.
pub(crate) fn python_name(ty: ElementType) -> &'static str {
    ELEMENT_TYPES.iter().find(|(_, known)| *known == ty).map_or("uint32", |(name, _)| name)
}
