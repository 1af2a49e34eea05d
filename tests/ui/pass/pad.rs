#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
pub fn k<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, { pad = -1 }>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn unsigned<T: Float>(table: Table<T, 3>, row: Index<u8, 3, { pad = 255 }>) -> Rows<T> {
    table[row]
}

fn main() {}
