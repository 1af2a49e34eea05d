#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

/// Six modulation vectors per packed position.
#[kernel]
pub fn adaln_row_gather<T: Float, I: Int, const R: usize>(
    table: Table<T, R, 6>,            // (R, 6·H)
    timestep: Index<I, { R / 3 }>,    // (S,), each in 0..R/3; R must divide
    modality: Index<I, 3>,            // (S,), each in 0..3
) -> [Rows<T>; 6] {                   // six (S, H)
    table[timestep * 3 + modality]
}

fn main() {}
