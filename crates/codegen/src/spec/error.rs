//! What is wrong with a Spec, in the words of whoever called.

use crate::dtype::IntType;

use super::MAX_ROWS;

/// Why a [`Spec`](super::Spec) does not fit a kernel.
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
        multiple(*value, *unit)
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

/// The next multiple of `unit`, or the one before where the next is too large.
fn multiple(value: u64, unit: u64) -> u64 {
    value.checked_next_multiple_of(unit).filter(|&next| next <= MAX_ROWS).unwrap_or(value / unit * unit)
}
