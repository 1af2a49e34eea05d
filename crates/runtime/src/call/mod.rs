//! Calls: one entry for every kernel, direction and device.

use rowloom_codegen::{Arch, DType, Schedule, Spec, Verified};

use crate::device::Stream;
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut};
use crate::workspace::Workspace;

/// The arguments of one call of one kernel. `'t` is the tensors' lifetime.
pub struct Call<'a, 't> {
    /// For each input of the kernel its tensors.
    pub inputs: &'a [Vec<AnyView<'t>>],
    /// For each output of the kernel its tensors.
    pub outputs: &'a mut [Vec<AnyViewMut<'t>>],
    /// One plan for each row expression of the kernel. `None`: a kernel that
    /// only gathers checks its indices itself, one that sums builds plans.
    pub plans: Option<&'a [&'a RowPlan]>,
    /// How to run; `None` takes the default. The CPU has none.
    pub schedule: Option<Schedule>,
    /// Scratch memory to use; `None` allocates what is needed.
    pub workspace: Option<&'a mut Workspace>,
}

/// Runs a kernel on the stream's device.
///
/// On a GPU a planned call only queues work; one without plans waits, since it
/// must say whether the indices were right.
///
/// # Errors
/// Every size, type, stride, device and plan that does not fit, before any work;
/// [`Error::Index`] for an index out of bounds. Outputs are then unspecified.
pub fn run(stream: &Stream, kernel: &Verified, call: Call<'_, '_>) -> Result<(), Error> {
    let _ = (
        stream,
        kernel,
        call.inputs,
        call.outputs,
        call.plans,
        call.schedule,
        call.workspace,
    );
    Err(Error::OnlyAccelerator("kernel"))
}

/// Outputs of the right sizes for a call. `counts` gives the row counts that no
/// input determines; `gradient` the stored type of table gradients in place of
/// the table's own.
///
/// # Errors
/// As [`run`]; [`Error::Undetermined`] for a row count that nothing gives.
pub fn allocate_outputs(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
    gradient: Option<DType>,
) -> Result<Vec<Vec<AnyTensor>>, Error> {
    let _ = (stream, kernel, inputs, counts, gradient);
    Err(Error::OnlyAccelerator("kernel"))
}

/// The specialisation that a call asks for.
///
/// # Errors
/// As [`run`].
pub fn spec(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &[Vec<AnyViewMut<'_>>],
    planned: bool,
    arch: Arch,
) -> Result<Spec, Error> {
    let _ = (kernel, inputs, outputs, planned, arch);
    Err(Error::OnlyAccelerator("kernel"))
}
