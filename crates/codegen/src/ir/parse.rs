//! The text form, read.

use super::Kernel;

/// Text that is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

pub(super) fn kernel(text: &str) -> Result<Kernel, ParseError> {
    todo!("{text}")
}
