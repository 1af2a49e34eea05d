//! The derived backward.

use crate::ir::{InputId, Verified};

/// The inputs whose gradient is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wants(pub Vec<InputId>);

/// The backward of a declared kernel, pruned to what is wanted.
///
/// Inputs: the indices, then one cotangent `d_<output>` per output. Outputs: one
/// gradient `d_<input>` per wanted input, in declaration order.
pub fn backward(kernel: &Verified, wants: &Wants) -> Verified {
    todo!("{kernel:?} {wants:?}")
}
