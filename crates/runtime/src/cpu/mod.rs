//! The CPU executor.

mod tiling;

pub use tiling::Tiling;
