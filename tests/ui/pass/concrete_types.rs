#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

#[kernel]
pub fn k(a: Table<f16, 4>, b: Table<f32, 4>, x: Rows<bf16>, row: Index<u8, 4>) -> (Rows<f16>, Rows<f32>, Rows<bf16>) {
    (a[row], b[row], x)
}

#[kernel]
pub fn ints(a: Table<f32, 4>, i: Index<i32, 4>, j: Index<i64, 4>) -> (Rows<f32>, Rows<f32>) {
    (a[i], a[j])
}

fn main() {}
