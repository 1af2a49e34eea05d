//! Calls: one entry for every kernel, direction and device.

mod facts;
mod on_accelerator;
mod on_cpu;
mod rows;

use rowloom_codegen::ir::OutputKind;
use rowloom_codegen::{Arch, DType, Schedule, Spec, Verified};

use crate::device::{Lane, Stream};
use crate::element::ElementType;
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut};
use crate::workspace::Workspace;
use facts::{Facts, Sizes};

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
    let views: Vec<Vec<AnyView<'_>>> =
        call.outputs.iter().map(|tensors| tensors.iter().map(AnyViewMut::as_view).collect()).collect();
    let arch = stream.device().arch().unwrap_or(Arch::SM_90);
    let Sizes { spec, positions } = sizes(kernel, call.inputs, &views, call.plans.is_some(), arch)?;
    check_devices(stream, kernel, call.inputs, &views)?;
    if let Some(plans) = call.plans {
        rows::check_plans(stream, kernel, &spec, positions, plans)?;
    }
    if call.workspace.as_ref().is_some_and(|workspace| !workspace.belongs_to(stream)) {
        return Err(Error::Workspace);
    }
    match &stream.0 {
        Lane::Cpu(tiling) => on_cpu::run(kernel, &spec, positions, call, tiling),
        Lane::Accelerator(queue) => on_accelerator::run(stream, queue, kernel, &spec, positions, call),
    }
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
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_counts(counts)?;
    if let Some(ty) = gradient {
        facts.store_gradients_as(ty);
    }
    let Sizes { spec, positions } = facts.finish(true, Arch::SM_90)?;
    let allocate = |output: &rowloom_codegen::ir::Output| {
        let (ty, rows, columns) = match output.kind {
            OutputKind::Rows(ty) => (ty, positions, spec.hidden),
            OutputKind::Table { ty, rows } => (ty, spec.extent(rows), spec.hidden * output.values.len() as u64),
        };
        let ty = ElementType::Float(spec.float(ty));
        (0..output.tensors()).map(|_| AnyTensor::uninit(stream, ty, rows, columns)).collect()
    };
    kernel.outputs.iter().map(allocate).collect()
}

/// The plans of a kernel's row expressions, one each, in their order. `counts` gives the row
/// counts that no input determines. Waits for the stream.
///
/// # Errors
/// As [`run`] and [`RowPlan::build`].
pub fn plans(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
) -> Result<Vec<RowPlan>, Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_counts(counts)?;
    check_devices(stream, kernel, inputs, &[])?;
    let Sizes { spec, .. } = facts.finish(true, Arch::SM_90)?;
    rows::all(kernel, |row| {
        RowPlan::build(stream, &rows::shape(kernel, &spec, row), &rows::indices(kernel, inputs, row))
    })
}

/// Types and sizes that inputs on the CPU and named row counts determine, and S.
pub(crate) fn sizes_of_inputs(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
) -> Result<(Spec, u64), Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_counts(counts)?;
    check_devices(stream, kernel, inputs, &[])?;
    let Sizes { spec, positions } = facts.finish(true, Arch::SM_90)?;
    Ok((spec, positions))
}

/// The specialisation that a call asks for.
///
/// # Errors
/// As [`run`].
pub fn spec(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &[Vec<AnyView<'_>>],
    planned: bool,
    arch: Arch,
) -> Result<Spec, Error> {
    Ok(sizes(kernel, inputs, outputs, planned, arch)?.spec)
}

fn sizes(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &[Vec<AnyView<'_>>],
    planned: bool,
    arch: Arch,
) -> Result<Sizes, Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_outputs(outputs)?;
    // What sums needs plans: they are built where none are given.
    let planned = planned || kernel.sums();
    let mut sizes = facts.finish(planned, arch)?;
    let hidden = sizes.spec.hidden;
    for (access, (input, tensors)) in sizes.spec.inputs.iter_mut().zip(kernel.inputs.iter().zip(inputs)) {
        if !input.is_index() {
            *access = facts::access(tensors, hidden);
        }
    }
    for (access, tensors) in sizes.spec.outputs.iter_mut().zip(outputs) {
        *access = facts::access(tensors, hidden);
    }
    Ok(sizes)
}

fn check_devices(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &[Vec<AnyView<'_>>],
) -> Result<(), Error> {
    let inputs = kernel.inputs.iter().map(|input| &input.name).zip(inputs);
    let outputs = kernel.outputs.iter().map(|output| &output.name).zip(outputs);
    for (name, tensors) in inputs.chain(outputs) {
        for (element, view) in tensors.iter().enumerate() {
            if view.device() != stream.device() {
                return Err(view.wrong_device(&facts::argument(name, tensors.len(), element), stream));
            }
        }
    }
    Ok(())
}
