//! Sizes of a call, and what follows from them: outputs, plans, Specs.

use rowloom_codegen::ir::OutputKind;
use rowloom_codegen::{Arch, DType, Spec, Verified};

use super::facts::{self, Facts, Sizes};
use super::{operands, rows};
use crate::element::ElementType;
use crate::error::Error;
use crate::grouped;
use crate::plan::RowPlan;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView};

/// Outputs of the right sizes for a call. `counts` gives the row counts that no
/// input determines; `gradient` the stored type of table gradients in place of
/// the table's own.
///
/// # Errors
/// As [`crate::run`]; [`Error::Undetermined`] for a row count that nothing gives.
pub fn allocate_outputs(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
    gradient: Option<DType>,
) -> Result<Vec<Vec<AnyTensor>>, Error> {
    let inputs = operands::flat_inputs(kernel, inputs)?;
    let mut tensors = allocate_flat(stream, kernel, &inputs, counts, gradient)?.into_iter();
    Ok(kernel.outputs.iter().map(|output| tensors.by_ref().take(output.tensors()).collect()).collect())
}

/// The same, one after the other.
pub(crate) fn allocate_flat(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[AnyView<'_>],
    counts: &[(&str, u64)],
    gradient: Option<DType>,
) -> Result<Vec<AnyTensor>, Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_counts(counts)?;
    if let Some(ty) = gradient {
        facts.store_gradients_as(ty);
    }
    let Sizes { spec, positions } = facts.finish(true, Arch::SM_90)?;
    let mut tensors = Vec::new();
    for output in &kernel.outputs {
        let (ty, rows, columns) = match output.kind {
            OutputKind::Rows(ty) => (ty, positions, spec.hidden),
            OutputKind::Table { ty, rows } => (ty, spec.extent(rows), spec.hidden * output.values.len() as u64),
        };
        let ty = ElementType::Float(spec.float(ty));
        for _ in 0..output.tensors() {
            tensors.push(AnyTensor::uninit(stream, ty, rows, columns)?);
        }
    }
    Ok(tensors)
}

/// The plans of a kernel's row expressions, one each, in their order. `counts` gives the row
/// counts that no input determines. Waits for the stream.
///
/// # Errors
/// As [`crate::run`] and [`RowPlan::build`].
pub fn plans(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
) -> Result<Vec<RowPlan>, Error> {
    queue_plans(stream, kernel, inputs, counts)?.wait()
}

/// The same without waiting.
///
/// # Errors
/// As [`plans`], but for indices, of which [`rows::PendingPlans::wait`] says.
pub fn queue_plans<'k, 't>(
    stream: &Stream,
    kernel: &'k Verified,
    inputs: &[Vec<AnyView<'t>>],
    counts: &[(&str, u64)],
) -> Result<rows::PendingPlans<'k, 't>, Error> {
    queue_flat_plans(stream, kernel, &operands::flat_inputs(kernel, inputs)?, counts)
}

/// The same for inputs one after the other.
pub(crate) fn queue_flat_plans<'k, 't>(
    stream: &Stream,
    kernel: &'k Verified,
    inputs: &[AnyView<'t>],
    counts: &[(&str, u64)],
) -> Result<rows::PendingPlans<'k, 't>, Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_counts(counts)?;
    check_devices(stream, kernel, inputs, &[])?;
    let Sizes { spec, .. } = facts.finish(true, Arch::SM_90)?;
    rows::queue(stream, kernel, &spec, inputs)
}

/// Types and sizes that inputs on the CPU and named row counts determine, and S.
pub(crate) fn sizes_of_inputs(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
) -> Result<(Spec, u64), Error> {
    let inputs = operands::flat_inputs(kernel, inputs)?;
    let mut facts = Facts::of_inputs(kernel, &inputs)?;
    facts.add_counts(counts)?;
    check_devices(stream, kernel, &inputs, &[])?;
    let Sizes { spec, positions } = facts.finish(true, Arch::SM_90)?;
    Ok((spec, positions))
}

/// The specialisation that a call asks for.
///
/// # Errors
/// As [`crate::run`].
pub fn spec(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &[Vec<AnyView<'_>>],
    planned: bool,
    arch: Arch,
) -> Result<Spec, Error> {
    let inputs = operands::flat_inputs(kernel, inputs)?;
    let outputs = operands::flat_output_views(kernel, outputs)?;
    Ok(sizes(kernel, &inputs, &outputs, planned, arch)?.spec)
}

pub(super) fn sizes(
    kernel: &Verified,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
    planned: bool,
    arch: Arch,
) -> Result<Sizes, Error> {
    let mut facts = Facts::of_inputs(kernel, inputs)?;
    facts.add_outputs(outputs)?;
    // What sums needs plans: they are built where none are given.
    let planned = planned || kernel.sums();
    let mut sizes = facts.finish(planned, arch)?;
    let hidden = sizes.spec.hidden;
    let tensors = grouped::inputs(kernel, inputs);
    for (access, (input, tensors)) in sizes.spec.inputs.iter_mut().zip(tensors) {
        if !input.is_index() {
            *access = facts::access(tensors, hidden);
        }
    }
    let tensors = grouped::outputs(kernel, outputs);
    for (access, (_, tensors)) in sizes.spec.outputs.iter_mut().zip(tensors) {
        *access = facts::access(tensors, hidden);
    }
    Ok(sizes)
}

pub(super) fn check_devices(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
) -> Result<(), Error> {
    let inputs = grouped::inputs(kernel, inputs).map(|(input, tensors)| (&input.name, tensors));
    let outputs = grouped::outputs(kernel, outputs).map(|(output, tensors)| (&output.name, tensors));
    for (name, tensors) in inputs.chain(outputs) {
        for (element, view) in tensors.iter().enumerate() {
            if !view.is_on(stream) {
                return Err(view.wrong_device(&facts::argument(name, tensors.len(), element), stream));
            }
        }
    }
    Ok(())
}
