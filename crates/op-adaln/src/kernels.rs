//! The declarations.

use rowloom::prelude::*;

/// Six modulation vectors per packed position: MiniMax-H3's AdaLN table, read by timestep and modality.
#[kernel]
pub fn adaln_row_gather<T: Float, I: Int, const R: usize>(
    table: Table<T, R, 6>,         // (R, 6·H): shift, scale, gate of attention, then of the MLP
    timestep: Index<I, { R / 3 }>, // (S,), each in 0..R/3; R must divide
    modality: Index<I, 3>,         // (S,), each in 0..3: video, text, audio
) -> [Rows<T>; 6] {
    // six (S, H)
    table[timestep * 3 + modality]
}

/// One table row per position.
#[kernel]
pub fn row_gather<T: Float, I: Int, const R: usize>(
    table: Table<T, R>, // (R, H)
    row: Index<I, R>,   // (S,), each in 0..R
) -> Rows<T> {
    // (S, H)
    table[row]
}

/// The ordered sum of each table row's positions; a row without positions is +0.0.
#[kernel]
pub fn row_scatter_sum<T: Float, I: Int, const R: usize>(
    rows: Rows<T>,    // (S, H)
    row: Index<I, R>, // (S,), each in 0..R
) -> Table<T, R> {
    // (R, H)
    segment_sum(rows, row)
}
