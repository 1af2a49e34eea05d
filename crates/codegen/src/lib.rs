//! rowloom's compiler: the IR of a row kernel, its verifier, its derived
//! backward, the schedules it may run under, and the CUDA C it becomes.
//!
//! Nothing here does I/O, talks to a GPU or is unsafe; the crate also runs
//! inside the `#[kernel]` macro. Data flows one way, and each stage has a type
//! that only its own check can make:
//!
//! ```text
//! ir::Kernel -> ir::Verified -> ir::Verified (backward)
//!     -> (Verified, Spec, Schedule) -> cuda::Source
//! ```

pub mod backward;
pub mod cuda;
pub mod dtype;
pub mod ir;
pub mod schedule;
pub mod spec;
mod subject;
mod verify;

pub use backward::{Wants, backward};
pub use cuda::{GenerateError, Source, generate};
pub use dtype::{Accumulate, DType, IntType};
pub use ir::{Kernel, Verified};
pub use schedule::{PlanSchedule, Schedule};
pub use spec::{Arch, SClass, Spec};
pub use subject::{Choice, Subject};
