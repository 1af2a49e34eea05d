//! The key of a specialisation: everything about a call that the generated
//! text may depend on, and nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dtype::{DType, IntType};
use crate::ir::{Extent, FloatType, IndexType, InputKind, Kernel, OutputKind};

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

/// Why a [`Spec`] does not fit a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A list of the wrong length.
    #[error("{kernel} has {expected} {what}, not {found}")]
    Length {
        /// Kernel.
        kernel: String,
        /// Which list.
        what: &'static str,
        /// Its length in the kernel.
        expected: usize,
        /// Its length in the Spec.
        found: usize,
    },
    /// A size of zero.
    #[error("{what} is 0; it must be at least 1")]
    Zero {
        /// Which size.
        what: String,
    },
    /// A row count that a bound does not divide, or one too large.
    #[error(
        "{kernel}: {name} is in 0..{extent}, and {extent} is no whole number for {count} = {value}; \
         {count} must be a multiple of {unit}, such as {}",
        value.div_ceil(*unit) * unit
    )]
    Indivisible {
        /// Kernel.
        kernel: String,
        /// Input or output with that bound.
        name: String,
        /// The bound as declared.
        extent: String,
        /// The row count.
        count: String,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        unit: u64,
    },
    /// More rows than row numbers can say.
    #[error("{name} has {rows} rows; the limit is {limit}")]
    TooManyRows {
        /// Table or row count.
        name: String,
        /// Its rows.
        rows: u64,
        /// Most rows.
        limit: u64,
    },
    /// Rows too long for 32-bit columns.
    #[error("a row of {name} would have {chunks} × {hidden} columns; the limit is {limit}")]
    TooWide {
        /// Table.
        name: String,
        /// Its chunks.
        chunks: u64,
        /// H.
        hidden: u64,
        /// Most columns.
        limit: u64,
    },
    /// A pad that the index type of this call cannot hold.
    #[error("{name} has the pad {pad}, which no {ty} can be; use another index type")]
    Pad {
        /// Index.
        name: String,
        /// Its pad.
        pad: i64,
        /// Its type here.
        ty: IntType,
    },
    /// An access that is no power of two between one element and 16 bytes, or that H columns
    /// are no multiple of.
    #[error("{name} cannot be accessed {vector_bytes} bytes at a time")]
    Access {
        /// Tensor.
        name: String,
        /// The width asked for.
        vector_bytes: u32,
    },
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

    /// Whether it fits the kernel.
    pub fn check(&self, kernel: &Kernel) -> Result<(), SpecError> {
        let lengths = [
            ("float types", kernel.floats.len(), self.floats.len()),
            ("index types", kernel.ints.len(), self.ints.len()),
            ("row counts", kernel.counts.len(), self.counts.len()),
            ("inputs", kernel.inputs.len(), self.inputs.len()),
            ("outputs", kernel.outputs.len(), self.outputs.len()),
        ];
        for (what, expected, found) in lengths {
            if expected != found {
                return Err(SpecError::Length { kernel: kernel.name.clone(), what, expected, found });
            }
        }
        if self.hidden == 0 {
            return Err(SpecError::Zero { what: "H".to_owned() });
        }
        for (name, &count) in kernel.counts.iter().zip(&self.counts) {
            if count == 0 {
                return Err(SpecError::Zero { what: name.clone() });
            }
            // `{N * 3}` of a huge N would leave 64 bits before it is compared.
            if count > MAX_ROWS {
                return Err(SpecError::TooManyRows { name: name.clone(), rows: count, limit: MAX_ROWS });
            }
        }
        for (input, access) in kernel.inputs.iter().zip(&self.inputs) {
            let bytes = match input.kind {
                InputKind::Rows(ty) => self.float(ty).bytes(),
                InputKind::Table { ty, rows, chunks } => {
                    self.check_rows(kernel, &input.name, rows)?;
                    self.check_columns(&input.name, u64::from(chunks))?;
                    self.float(ty).bytes()
                }
                InputKind::Index { ty, bound, pad } => {
                    self.check_extent(kernel, &input.name, bound)?;
                    let ty = self.int(ty);
                    if let Some(pad) = pad.filter(|pad| !ty.holds(*pad)) {
                        return Err(SpecError::Pad { name: input.name.clone(), pad, ty });
                    }
                    // One number a position.
                    access.check(&input.name, ty.bytes(), 1)?;
                    continue;
                }
            };
            access.check(&input.name, bytes, self.hidden)?;
        }
        for (output, access) in kernel.outputs.iter().zip(&self.outputs) {
            let bytes = match output.kind {
                OutputKind::Rows(ty) => {
                    self.check_columns(&output.name, 1)?;
                    self.float(ty).bytes()
                }
                OutputKind::Table { ty, rows } => {
                    self.check_columns(&output.name, output.values.len() as u64)?;
                    self.check_rows(kernel, &output.name, rows)?;
                    self.float(ty).bytes()
                }
            };
            access.check(&output.name, bytes, self.hidden)?;
        }
        Ok(())
    }

    fn check_rows(&self, kernel: &Kernel, name: &str, rows: Extent) -> Result<(), SpecError> {
        let rows = self.check_extent(kernel, name, rows)?;
        if rows > MAX_ROWS {
            return Err(SpecError::TooManyRows { name: name.to_owned(), rows, limit: MAX_ROWS });
        }
        Ok(())
    }

    fn check_columns(&self, name: &str, chunks: u64) -> Result<(), SpecError> {
        if chunks.saturating_mul(self.hidden) <= MAX_COLUMNS {
            return Ok(());
        }
        Err(SpecError::TooWide { name: name.to_owned(), chunks, hidden: self.hidden, limit: MAX_COLUMNS })
    }

    fn check_extent(&self, kernel: &Kernel, name: &str, extent: Extent) -> Result<u64, SpecError> {
        let value = extent.value(&self.counts).ok_or_else(|| {
            let count = extent.count.expect("a literal always has a value");
            SpecError::Indivisible {
                kernel: kernel.name.clone(),
                name: name.to_owned(),
                extent: extent.text(&kernel.counts),
                count: kernel.counts[count.index()].clone(),
                value: self.counts[count.index()],
                unit: extent.denominator,
            }
        })?;
        if value == 0 {
            return Err(SpecError::Zero { what: format!("the bound of {name}") });
        }
        Ok(value)
    }
}

impl Access {
    fn check(self, name: &str, element_bytes: u32, columns: u64) -> Result<(), SpecError> {
        let bytes = self.vector_bytes;
        let fits = bytes.is_power_of_two() && (element_bytes..=Self::MAX_BYTES).contains(&bytes);
        if fits && columns.is_multiple_of(u64::from(bytes / element_bytes)) {
            return Ok(());
        }
        Err(SpecError::Access { name: name.to_owned(), vector_bytes: bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Verified;

    /// Two chunks a row, so that a row is aligned where its chunks are not.
    const PAIR: &str = "\
kernel pair forward
order block = 256, accumulate = f32
float T
int I
rows R
input table: table<T, R, 2>
input row: index<I, R>
row r0: R = row
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[1] at r0
output out: rows<T> = [v0, v1]
";

    fn refused(dtype: DType, hidden: u64, set: impl Fn(&mut Spec)) -> Option<SpecError> {
        let pair: Verified = Kernel::parse(PAIR).unwrap().verify().unwrap();
        let mut spec = Spec::contiguous(&pair, dtype, IntType::I64, &[9], hidden);
        set(&mut spec);
        spec.check(&pair).err()
    }

    #[test]
    fn an_access_covers_whole_elements_and_no_chunk_ends_inside_one() {
        let access = |name: &str, vector_bytes| Some(SpecError::Access { name: name.to_owned(), vector_bytes });
        for (dtype, hidden, widest) in [
            (DType::Bf16, 8, 16),
            (DType::Bf16, 12, 8),
            (DType::Bf16, 6, 4),
            (DType::Bf16, 5, 2),
            (DType::F32, 8, 16),
            (DType::F32, 6, 8),
            (DType::F32, 5, 4),
        ] {
            for bytes in [1, 2, 4, 8, 16, 32] {
                let legal = bytes <= widest && bytes >= dtype.bytes();
                let table = refused(dtype, hidden, |spec| spec.inputs[0].vector_bytes = bytes);
                let out = refused(dtype, hidden, |spec| spec.outputs[0].vector_bytes = bytes);
                let expected = |name| if legal { None } else { access(name, bytes) };
                assert_eq!((table, out), (expected("table"), expected("out")), "{dtype} H = {hidden}: {bytes} bytes");
            }
        }
        for bytes in [0, 3, 12] {
            assert_eq!(refused(DType::F32, 24, |spec| spec.inputs[0].vector_bytes = bytes), access("table", bytes));
        }
        // An index is read one number a position.
        assert_eq!(refused(DType::F32, 8, |spec| spec.inputs[1].vector_bytes = 16), access("row", 16));
    }
}
