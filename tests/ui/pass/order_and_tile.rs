#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel(order(block = 128, accumulate = f64), tile(forward(threads = [96, 128], kind = [position]), backward(kind = [blocks], unroll = [4, 8])))]
pub fn k<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
