//! Why a call is refused, and what Python raises for it.

use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use rowloom::{Error, ErrorKind};

/// What the boundary itself refuses, before anything is read or run, and what passes through it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// Something that is no array.
    #[error("{argument} is of type {found}, but must be a torch.Tensor or a numpy.ndarray")]
    NoArray { argument: String, found: String },
    /// An element type that rowloom does not know.
    #[error("{argument} holds {found}, but must hold {expected}")]
    ElementType { argument: String, found: String, expected: String },
    /// Another number of axes.
    #[error("{argument} has {found} {}, but must have {expected}", if *found == 1 { "axis" } else { "axes" })]
    Axes { argument: String, found: usize, expected: String },
    /// An axis that runs backwards.
    #[error("{argument} has a {axis} stride of {found}; it must not be negative: make a contiguous copy")]
    NegativeStride { argument: String, axis: &'static str, found: i64 },
    /// Elements that do not lie at multiples of their size.
    #[error("{argument} has a {axis} stride of {found} bytes, which is no multiple of {of}: make a contiguous copy")]
    ByteStride { argument: String, axis: &'static str, found: i64, of: i64 },
    /// An output that must not be written.
    #[error("{argument} is written, but it is read-only: pass an array that can be written")]
    ReadOnly { argument: String },
    /// Bytes in the other order.
    #[error("{argument} holds {found} in another byte order than this machine's: convert it with astype")]
    ByteOrder { argument: String, found: String },
    /// A tensor that is not rows of numbers in memory.
    #[error("{argument} is {what}; it must be a dense tensor with memory of its own")]
    NoMemory { argument: String, what: String },
    /// A tensor whose elements stand in memory with the other sign.
    #[error("{argument} is a negated view of its memory: pass {argument}.resolve_neg()")]
    Negated { argument: String },
    /// A device that rowloom does not know.
    #[error("{argument} is on {found}, but rowloom runs on cpu and cuda")]
    UnknownDevice { argument: String, found: String },
    /// A tensor that lives elsewhere.
    #[error("{argument} is on {found}, but the call runs on {expected}: {because}; move {argument} to {expected}")]
    OtherDevice { argument: String, found: String, expected: String, because: String },
    /// Memory that is written and used under two names.
    #[error("{argument} is written, but it shares memory with {other}: pass memory of its own")]
    Shared { argument: String, other: String },
    /// A word that means nothing here.
    #[error("{argument} is {found:?}, but must be {expected}")]
    Word { argument: &'static str, found: String, expected: &'static str },
    /// A number out of its range.
    #[error("{argument} is {found}, but must be {expected}")]
    Number { argument: String, found: String, expected: &'static str },
    /// What rowloom says.
    #[error(transparent)]
    Rowloom(#[from] Error),
    /// What Python says.
    #[error(transparent)]
    Python(#[from] PyErr),
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> PyErr {
        let sentence = refused.to_string();
        match refused {
            Refused::Python(error) => error,
            Refused::Rowloom(error) => match error.kind() {
                ErrorKind::Index => PyIndexError::new_err(sentence),
                ErrorKind::Type => PyTypeError::new_err(sentence),
                ErrorKind::Argument => PyValueError::new_err(sentence),
                ErrorKind::Memory => PyMemoryError::new_err(sentence),
                ErrorKind::Environment => PyRuntimeError::new_err(sentence),
            },
            Refused::NoArray { .. } | Refused::ElementType { .. } | Refused::ByteOrder { .. } => {
                PyTypeError::new_err(sentence)
            }
            Refused::Axes { .. }
            | Refused::NegativeStride { .. }
            | Refused::ByteStride { .. }
            | Refused::ReadOnly { .. }
            | Refused::NoMemory { .. }
            | Refused::Negated { .. }
            | Refused::UnknownDevice { .. }
            | Refused::OtherDevice { .. }
            | Refused::Shared { .. }
            | Refused::Word { .. }
            | Refused::Number { .. } => PyValueError::new_err(sentence),
        }
    }
}
