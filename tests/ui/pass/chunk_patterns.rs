#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
pub fn k<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, row: Index<I, R>) -> (Rows<T>, [Rows<T>; 2], Rows<T>) {
    let [shift, scale, gate, ..] = table[row];
    let [.., last] = table[row];
    (gate, [shift, scale], last)
}

#[kernel]
pub fn skipped<T: Float, I: Int, const R: usize>(table: Table<T, R>, triple: Table<T, R, 3>, row: Index<I, R>) -> [Rows<T>; 3] {
    let [only] = table[row];
    let [a, _, b] = triple[row];
    [a, only, b]
}

fn main() {}
