//! Declare a row gather or a row reduction once, in Rust: rowloom derives its
//! backward, generates CUDA C for it, and runs it with the same bytes on a GPU,
//! in emulation and on the CPU.
//!
//! ```
//! use rowloom::prelude::*;
//!
//! /// Six modulation vectors per packed position.
//! #[kernel]
//! pub fn adaln_row_gather<T: Float, I: Int, const R: usize>(
//!     table: Table<T, R, 6>,         // (R, 6·H)
//!     timestep: Index<I, { R / 3 }>, // (S,), each in 0..R/3; R must divide
//!     modality: Index<I, 3>,         // (S,), each in 0..3
//! ) -> [Rows<T>; 6] {                // six (S, H)
//!     table[timestep * 3 + modality]
//! }
//!
//! # fn main() -> Result<(), rowloom::Error> {
//! let stream = Device::cpu().stream()?;
//! // R = 3 rows of 6 chunks of H = 2 columns; S = 4 positions.
//! let numbers: Vec<f32> = (0..36u8).map(f32::from).collect();
//! let table = Tensor::from_slice(&stream, &numbers, 3, 12)?;
//! let timestep = Tensor::from_slice(&stream, &[0i64, 0, 0, 0], 4, 1)?;
//! let modality = Tensor::from_slice(&stream, &[2i64, 0, 2, 1], 4, 1)?;
//! let inputs = adaln_row_gather::Inputs {
//!     table: table.view(),
//!     timestep: timestep.view(),
//!     modality: modality.view(),
//! };
//!
//! let outputs = adaln_row_gather::forward(&stream, &inputs, None)?;
//! let shift = outputs.out[0].to_vec(&stream)?;
//! assert_eq!(shift, [24.0, 25.0, 0.0, 1.0, 24.0, 25.0, 12.0, 13.0]);
//!
//! // The backward sums, for each table row, over the positions that picked it.
//! let ones = Tensor::from_slice(&stream, &[1.0f32; 8], 4, 2)?;
//! let cotangents = adaln_row_gather::Cotangents { out: [ones.view(); 6] };
//! let wants = adaln_row_gather::Wants::TABLE;
//! let gradients = adaln_row_gather::backward(&stream, &inputs, &cotangents, None, wants)?;
//! let table = gradients.table.expect("it was wanted").to_vec(&stream)?;
//! assert_eq!(table, [[1.0; 12], [1.0; 12], [2.0; 12]].concat());
//! # Ok(())
//! # }
//! ```
//!
//! # The language
//!
//! A kernel is a function in Rust's syntax. Its tensors share S, the number of
//! positions, and H, the number of columns.
//!
//! | type | shape | what it is |
//! |---|---|---|
//! | `Rows<T>` | (S, H) | a row per position |
//! | `Table<T, R>`, `Table<T, R, C>` | (R, C·H) | R rows of C chunks, read through an index |
//! | `Index<I, BOUND>` | (S,) | a number in `0..BOUND` per position |
//! | `Index<I, BOUND, { pad = -1 }>` | (S,) | the same, where -1 means no row: +0.0, and nothing is summed |
//!
//! - `T` is a type parameter with the bound `Float`, or `f32`, `f16`, `bf16`; `I`
//!   one with the bound `Int`, or `i32`, `i64`, `u8`; `R` a `const R: usize`. A
//!   number of rows is such an `R`, a number, or `{ R / 3 }`, `{ R * 2 }`.
//! - `table[index]` is the row that each position names; of a table of C chunks
//!   an array of C rows. An index expression is a sum of indices times whole
//!   numbers, and is proved to stay below the table's row count.
//! - `segment_sum(rows, index)` is, for each row of a new table, the ordered sum
//!   over the positions that name it. It is an output. A row count that no input
//!   tells is an argument of the call.
//! - `let row = timestep * 3 + modality;` names an index expression or rows;
//!   `let [shift, scale, ..] = table[row];` names chunks.
//! - What is returned is `Rows<T>`, `[Rows<T>; N]`, `Table<T, R>`, or a tuple of
//!   these: the outputs `out`, or `out0`, `out1` and so on.
//!
//! `#[kernel(order(block = 256, accumulate = f32))]` is the order in which
//! positions are summed: it is meaning, and never tuned. `tile(forward(threads =
//! [96, 128]), backward(kind = [blocks]))` narrows the schedules of a direction
//! to those values: it is speed, and never changes a byte.

pub use half::{bf16, f16};
pub use rowloom_dsl::kernel;
pub use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, Element, ElementType, Error, Event, Float, ImageFormat,
    Int, Nvrtc, Registered, RowPlan, RowShape, Stream, Tensor, Term, Tiling, View, ViewMut, Workspace,
    allocate_outputs, oracle, plans, registered, run, spec,
};

/// Kernels as data: IR, derived backwards, schedules and the CUDA C they become.
pub use rowloom_codegen as codegen;

/// What a program with a kernel of its own needs.
pub mod prelude {
    pub use crate::{Device, Error, Float, Int, RowPlan, Stream, Tensor, View, ViewMut, Workspace, kernel};
}

/// What the modules that `#[kernel]` generates refer to, beside the types above.
/// It may change with any version.
#[doc(hidden)]
pub mod __private {
    pub use half;
    pub use inventory;
    pub use rowloom_runtime::generated::{
        Arguments, Results, backward, backward_into, declared, forward, forward_into,
    };
}
