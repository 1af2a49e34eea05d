//! Element types of tensors, indices and accumulators.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A floating-point type a tensor may have in memory. Arithmetic is f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
}

/// An integer type an index may have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntType {
    /// 8 bits, unsigned.
    U8,
    /// 32 bits, two's complement.
    I32,
    /// 64 bits, two's complement.
    I64,
}

/// The type in which sums over positions are chained and folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accumulate {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl DType {
    /// Every type, narrowest exponent last.
    pub const ALL: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

    /// Size of one element in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::Bf16 => 2,
        }
    }

    /// The word for it in the language, in IR text and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
        }
    }
}

impl IntType {
    /// Every type.
    pub const ALL: [IntType; 3] = [IntType::U8, IntType::I32, IntType::I64];

    /// Size of one element in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            IntType::U8 => 1,
            IntType::I32 => 4,
            IntType::I64 => 8,
        }
    }

    /// Whether it has this value.
    pub fn holds(self, value: i64) -> bool {
        match self {
            IntType::U8 => u8::try_from(value).is_ok(),
            IntType::I32 => i32::try_from(value).is_ok(),
            IntType::I64 => true,
        }
    }

    /// The word for it in the language, in IR text and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            IntType::U8 => "u8",
            IntType::I32 => "i32",
            IntType::I64 => "i64",
        }
    }
}

impl Accumulate {
    /// Size of one partial sum in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Accumulate::F32 => 4,
            Accumulate::F64 => 8,
        }
    }

    /// The word for it in the language and in IR text.
    pub fn name(self) -> &'static str {
        match self {
            Accumulate::F32 => "f32",
            Accumulate::F64 => "f64",
        }
    }
}

/// A word that names no type of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no {kind}; it is one of {choices}")]
pub struct UnknownType {
    word: String,
    kind: &'static str,
    choices: &'static str,
}

macro_rules! words {
    ($ty:ty, $kind:literal, $choices:literal, [$($value:expr),*]) => {
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $ty {
            type Err = UnknownType;

            fn from_str(word: &str) -> Result<Self, UnknownType> {
                [$($value),*].into_iter().find(|value: &$ty| value.name() == word).ok_or_else(|| {
                    UnknownType { word: word.to_owned(), kind: $kind, choices: $choices }
                })
            }
        }
    };
}

words!(DType, "element type", "f32, f16, bf16", [DType::F32, DType::F16, DType::Bf16]);
words!(IntType, "index type", "u8, i32, i64", [IntType::U8, IntType::I32, IntType::I64]);
words!(Accumulate, "accumulator type", "f32, f64", [Accumulate::F32, Accumulate::F64]);
