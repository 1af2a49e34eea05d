//! MiniMax-H3's row gathers, declared with rowloom, and what surrounds them:
//! the packings of its videos, the generator of every test input, and oracles
//! that share no code with rowloom.
//!
//! Sizes: S packed positions, T timesteps, R = 3·T table rows, H columns of a
//! chunk.

pub mod layout;
pub mod oracle;
pub mod random;

pub use layout::{Indices, Layout};
