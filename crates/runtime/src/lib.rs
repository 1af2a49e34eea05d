//! Where rowloom's kernels run: devices, tensors, plans, calls, the CPU
//! executor, and the f64 oracle.
//!
//! | concept | type | how to get one |
//! |---|---|---|
//! | a place to run | [`Device`] | [`Device::cpu`], [`Device::cuda`], [`Device::best`] |
//! | work in order | [`Stream`] | [`Device::stream`] |
//! | numbers | [`Tensor`], [`View`], [`ViewMut`] | [`Tensor::from_slice`] |
//! | checked, sorted indices | [`RowPlan`] | [`RowPlan::affine`] |
//! | a declared kernel | [`Declaration`] | the `#[kernel]` macro, [`registered`] |
//! | running it | [`run`] | a [`Call`] |
//! | a check not waited for | [`Pending`] | [`run_deferred`] |
//! | scratch memory of calls | [`Workspace`] | [`workspace_bytes`] |
//! | calls to be replayed | [`Graph`] | [`Stream::capture`] |
//!
//! All unsafe code of rowloom is in this crate, and each piece says why it is sound.

mod accelerator;
#[doc(hidden)]
pub mod baseline;
pub mod cache;
mod call;
mod cpu;
mod cuda;
mod declaration;
mod device;
mod element;
mod emulation;
mod engine;
mod error;
mod error_kind;
mod files;
#[doc(hidden)]
pub mod generated;
mod graph;
mod grouped;
mod host;
mod launch;
mod modules;
mod notice;
mod nvrtc;
mod once;
pub mod oracle;
mod plan;
#[doc(hidden)]
pub mod probe;
pub mod sources;
mod stream;
mod tensor;
pub mod tuning;
mod workspace;

pub use call::{
    Call, Pending, PendingPlans, allocate_outputs, plans, queue_plans, row_shape, run, run_deferred, spec,
    workspace_bytes,
};
pub use cpu::Tiling;
pub use cuda::{Gpu, driver_release, gpus};
pub use declaration::{Declaration, Registered, registered};
pub use device::Device;
pub use element::{Element, ElementType, Float, Int};
pub use emulation::{Fault, ThreadId};
pub use error::Error;
pub use error_kind::ErrorKind;
pub use graph::Graph;
pub use host::free_memory_bytes;
pub use nvrtc::{Compiled, Compiler, ImageFormat, Nvrtc, look_into_python};
pub use plan::{PendingPlan, PlanSizes, RowPlan, RowShape, Term};
pub use stream::{Event, Stream};
pub use tensor::{AnyTensor, AnyView, AnyViewMut, Tensor, View, ViewMut};
pub use workspace::Workspace;
