//! Element types of tensors.

use std::fmt;

use rowloom_codegen::{DType, IntType};

/// What a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// Values.
    Float(DType),
    /// Indices.
    Int(IntType),
    /// Row numbers and positions, in plans.
    U32,
}

impl ElementType {
    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            ElementType::Float(ty) => u64::from(ty.bytes()),
            ElementType::Int(ty) => u64::from(ty.bytes()),
            ElementType::U32 => 4,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementType::Float(ty) => ty.fmt(f),
            ElementType::Int(ty) => ty.fmt(f),
            ElementType::U32 => f.write_str("u32"),
        }
    }
}

/// A Rust type that tensors hold.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// Its name at run time.
    const TYPE: ElementType;
}

/// An element that arithmetic knows: `f32`, [`half::f16`], [`half::bf16`].
pub trait Float: Element {
    /// Its name at run time.
    const DTYPE: DType;
}

/// An element of an index: `u8`, `i32`, `i64`.
pub trait Int: Element {
    /// Its name at run time.
    const INT: IntType;
}

macro_rules! floats {
    ($($ty:ty = $dtype:ident),*) => {$(
        impl Element for $ty {
            const TYPE: ElementType = ElementType::Float(DType::$dtype);
        }
        impl Float for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

macro_rules! ints {
    ($($ty:ty = $int:ident),*) => {$(
        impl Element for $ty {
            const TYPE: ElementType = ElementType::Int(IntType::$int);
        }
        impl Int for $ty {
            const INT: IntType = IntType::$int;
        }
    )*};
}

floats!(f32 = F32, half::f16 = F16, half::bf16 = Bf16);
ints!(u8 = U8, i32 = I32, i64 = I64);

impl Element for u32 {
    const TYPE: ElementType = ElementType::U32;
}
