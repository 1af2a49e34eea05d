#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]
//! Two row counts that differ in case alone, both arguments of the call.

use rowloom::kernel;

/// Two sums.
#[kernel]
pub fn two_sums<T: Float, I: Int, const R: usize, const r: usize>(
    /// What is summed.
    x: Rows<T>,
    /// The first table's row.
    a: Index<I, R>,
    /// The second table's row.
    b: Index<I, r>,
) -> (Table<T, R>, Table<T, r>) {
    (segment_sum(x, a), segment_sum(x, b))
}

fn main() {}
