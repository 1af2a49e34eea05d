#![doc = include_str!("../README.md")]
#![doc = include_str!("../docs/language.md")]
#![doc = include_str!("../docs/calls.md")]

pub use half::{bf16, f16};
pub use rowloom_dsl::kernel;
pub use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, Element, ElementType, Error, ErrorKind, Event, Float,
    Graph, ImageFormat, Int, Nvrtc, Pending, PlanSizes, Registered, RowPlan, RowShape, Stream, Tensor, Term, Tiling,
    View, ViewMut, Workspace, allocate_outputs, cache, oracle, plans, registered, row_shape, run, run_deferred,
    sources, spec, workspace_bytes,
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
        Arguments, Results, backward, backward_into, backward_workspace_bytes, declared, forward, forward_deferred,
        forward_deferred_into, forward_into, forward_workspace_bytes, plans,
    };
}
