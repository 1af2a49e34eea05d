#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

/// Sums the rows of each token.
#[kernel]
pub fn scatter_sum<T: Float, I: Int, const R: usize>(
    /// What is summed.
    y: Rows<T>,
    /// The token of each position.
    token: Index<I, R>,
) -> Table<T, R> {
    segment_sum(y, token)
}

#[kernel]
pub fn chunks<T: Float, I: Int, const R: usize>(a: Rows<T>, b: Rows<T>, row: Index<I, R>) -> (Rows<T>, Table<T, R, 2>) {
    let total = segment_sum([a, b], row);
    (b, total)
}

fn main() {}
