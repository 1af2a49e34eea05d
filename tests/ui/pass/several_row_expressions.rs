#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
pub fn k<T: Float, U: Float, I: Int, J: Int, const R: usize>(table: Table<T, R>, other: Table<U, { 2 * R }>, row: Index<I, R>, second: Index<J, R>) -> (Rows<T>, Rows<U>, Rows<T>) {
    let twice = row * 2 + 1;
    (table[row], other[twice], table[second])
}

fn main() {}
