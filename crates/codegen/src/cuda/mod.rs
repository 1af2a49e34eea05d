//! CUDA C for one kernel, one Spec and one schedule, and the plan's.
//!
//! The text has two parts. Primitives are a small fixed list of `rl_*`
//! functions, each with a device and a host definition; only those used are
//! written. The body is plain C++ over primitives: the same bytes go to NVRTC
//! and to the emulation.
//!
//! A [`Source`] is complete as data: whoever runs it needs no knowledge of the
//! kernel, only the sizes of the call and where its tensors lie.

mod primitives;
mod source;

pub use primitives::Primitive;
pub use source::{Count, Entry, Param, PlanArray, Scratch, Source, Step, Target};
