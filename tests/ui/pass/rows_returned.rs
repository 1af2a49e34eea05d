#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
pub fn k<T: Float>(x: Rows<T>) -> (Rows<T>, Rows<T>) {
    (x, x)
}

fn main() {}
