//! Generated CUDA C on the CPU, unmodified.
//!
//! The body of a source is compiled by a C++ compiler over the host texts of
//! its primitives, and every thread of a block runs as a cooperative fibre.
//! Several blocks are live at once; which thread runs next is drawn from a
//! seeded generator at each barrier, atomic, fence and fresh load, and a thread
//! runs alone from one of these to the next. A seed repeats a run exactly.
//!
//! Found at once, with kernel, block, thread and line: misaligned accesses,
//! accesses outside of every allocation, barriers that not all threads reach.
//! Found as differing bytes under some seeds: missing barriers and wrong
//! cooperation of blocks. Found as NaN or absurd indices: what nobody wrote,
//! as fresh memory and shared arrays hold 0xFF.
//!
//! Not found: a missing fence (memory is sequentially consistent here), data
//! races inside a warp that no barrier separates but no order reveals, and
//! accesses that go round the primitives, unless they hit a guard.

mod compile;
mod device;
mod emulator;
mod fault;
mod graph;
mod heap;
mod library;
mod text;

pub(crate) use device::open;
pub use fault::{Fault, ThreadId};

#[cfg(test)]
mod tests;
