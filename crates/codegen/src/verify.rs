//! The verifier.

use std::fmt;

use crate::ir::{InputId, Kernel, NodeId, RowId};

/// A kernel that has passed every rule. Only [`Kernel::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified(Kernel);

impl std::ops::Deref for Verified {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.0
    }
}

/// Where a rule is broken; the macro points at the user's word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The kernel as a whole.
    Kernel,
    /// An input.
    Input(InputId),
    /// A row expression.
    Row(RowId),
    /// A node.
    Node(NodeId),
    /// An output, by number.
    Output(usize),
    /// The order.
    Order,
}

/// One broken rule: a sentence in the user's words, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is wrong and what to write instead. No internal names.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

pub(crate) fn verify(kernel: Kernel) -> Result<Verified, Vec<Fault>> {
    todo!("{kernel:?}")
}
