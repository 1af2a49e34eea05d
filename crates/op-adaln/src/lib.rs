//! MiniMax-H3's row gathers, declared with rowloom, and what surrounds them:
//! the packings of its videos, the generator of every test input, and oracles
//! that share no code with rowloom.
//!
//! Sizes: S packed positions, T timesteps, R = 3·T table rows, H columns of a
//! chunk.

mod kernels;
pub mod layout;
pub mod oracle;
pub mod random;

pub use kernels::{adaln_row_gather, row_gather, row_scatter_sum};
pub use layout::{Indices, Layout};
