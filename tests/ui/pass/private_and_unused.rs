#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
fn k<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub(crate) fn visible<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

mod inside {
    use rowloom::kernel;

    #[kernel]
    pub(super) fn hidden<T: Float>(x: Rows<T>) -> Rows<T> {
        x
    }
}

fn main() {}
