//! The key of a specialisation: everything about a call that the generated
//! text may depend on, and nothing else.

mod check;
mod error;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dtype::{DType, IntType};
use crate::ir::{Extent, FloatType, IndexType, InputKind, Kernel, OutputKind};

pub use error::SpecError;

/// One specialisation of one kernel. Lists run parallel to the kernel's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// Element type of each float parameter.
    pub floats: Vec<DType>,
    /// Integer type of each integer parameter.
    pub ints: Vec<IntType>,
    /// Value of each row count, at least 1.
    pub counts: Vec<u64>,
    /// H, columns of a chunk, at least 1.
    pub hidden: u64,
    /// How the tensors of each input may be read.
    pub inputs: Vec<Access>,
    /// How the tensors of each output may be written.
    pub outputs: Vec<Access>,
    /// Class of S.
    pub s_class: SClass,
    /// Whether rows come from plans (no check) or from indices (checked).
    pub planned: bool,
    /// GPU architecture.
    pub arch: Arch,
}

/// How a tensor may be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Access {
    /// Widest access in bytes that every row and chunk of it is aligned to:
    /// a power of two, at least one element, at most 16.
    pub vector_bytes: u32,
}

impl Access {
    /// Widest access that is ever used.
    pub const MAX_BYTES: u32 = 16;
}

/// Class of the number of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SClass {
    /// No row can have more than one block: sums need no partials.
    OneBlock,
    /// Too few blocks to fill a large GPU many times over.
    Short,
    /// The rest.
    Long,
}

impl SClass {
    /// Positions up to which S is short.
    pub const SHORT: u64 = 16384;

    /// The class of `positions` for blocks of `block` positions.
    pub fn of(positions: u64, block: u32) -> SClass {
        if positions <= u64::from(block) {
            SClass::OneBlock
        } else if positions <= Self::SHORT {
            SClass::Short
        } else {
            SClass::Long
        }
    }
}

/// A GPU architecture by its number: 90 is sm_90.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arch(pub u32);

impl Arch {
    /// H100 and H200.
    pub const SM_90: Arch = Arch(90);
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

/// A word that is no architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no architecture; write sm_80, sm_90, sm_100, …")]
pub struct NotAnArch(String);

impl FromStr for Arch {
    type Err = NotAnArch;

    fn from_str(word: &str) -> Result<Arch, NotAnArch> {
        let number = word.strip_prefix("sm_").and_then(|digits| digits.parse().ok());
        match number {
            Some(number @ 70..=999) => Ok(Arch(number)),
            _ => Err(NotAnArch(word.to_owned())),
        }
    }
}

/// Most rows of a table: row numbers are 32 bits, and the last one means "no row".
pub const MAX_ROWS: u64 = u32::MAX as u64 - 1;

/// Most columns of a row: columns are 32 bits, and a loop over them may step past the end.
pub const MAX_COLUMNS: u64 = 1 << 31;

impl Spec {
    /// The Spec of contiguous, 16-byte-aligned tensors: what the command's `emit` shows.
    ///
    /// `floats` and `ints` give the parameters that tensors determine, in order;
    /// a parameter with a default takes it.
    pub fn contiguous(kernel: &Kernel, dtype: DType, int: IntType, counts: &[u64], hidden: u64) -> Spec {
        let mut floats: Vec<DType> = Vec::new();
        for param in &kernel.floats {
            let value = match param.default {
                None => dtype,
                Some(FloatType::Fixed(fixed)) => fixed,
                Some(FloatType::Param(other)) => floats[other.index()],
            };
            floats.push(value);
        }
        let mut spec = Spec {
            floats,
            ints: vec![int; kernel.ints.len()],
            counts: counts.to_vec(),
            hidden,
            inputs: Vec::new(),
            outputs: Vec::new(),
            s_class: SClass::Long,
            planned: true,
            arch: Arch::SM_90,
        };
        spec.inputs = kernel
            .inputs
            .iter()
            .map(|input| match input.kind {
                InputKind::Rows(ty) => spec.widest(ty),
                InputKind::Table { ty, .. } => spec.widest(ty),
                InputKind::Index { ty, .. } => Access { vector_bytes: spec.int(ty).bytes() },
            })
            .collect();
        spec.outputs = kernel
            .outputs
            .iter()
            .map(|output| match output.kind {
                OutputKind::Rows(ty) | OutputKind::Table { ty, .. } => spec.widest(ty),
            })
            .collect();
        spec
    }

    /// The widest access that H columns of this type allow in aligned, contiguous tensors.
    pub fn widest(&self, ty: FloatType) -> Access {
        // Twos in the bytes of a row; H may be too large to multiply.
        let twos = self.hidden.trailing_zeros() + self.float(ty).bytes().trailing_zeros();
        Access { vector_bytes: 1 << twos.min(Access::MAX_BYTES.trailing_zeros()) }
    }

    /// What a float type is here.
    pub fn float(&self, ty: FloatType) -> DType {
        match ty {
            FloatType::Param(param) => self.floats[param.index()],
            FloatType::Fixed(fixed) => fixed,
        }
    }

    /// What an integer type is here.
    pub fn int(&self, ty: IndexType) -> IntType {
        match ty {
            IndexType::Param(param) => self.ints[param.index()],
            IndexType::Fixed(fixed) => fixed,
        }
    }

    /// What an extent is here. The Spec must have passed [`Spec::check`].
    pub fn extent(&self, extent: Extent) -> u64 {
        extent.value(&self.counts).expect("Spec::check refuses what does not divide")
    }
}
