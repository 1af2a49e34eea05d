//! The tensors of a call, one after the other.

use rowloom_codegen::ir::Kernel;
use smallvec::SmallVec;

use super::facts::tensor_count;
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::{AnyView, AnyViewMut};

/// Views on the stack, for kernels of a usual size.
pub(crate) type Views<'t> = SmallVec<[AnyView<'t>; 8]>;

/// The tensors of each input and output in the kernel's order, several of one side by
/// side, as many as the kernel has; and its plans.
pub(crate) struct Operands<'a, 't, 'o> {
    pub(crate) inputs: &'a [AnyView<'t>],
    pub(crate) outputs: &'a mut [AnyViewMut<'o>],
    pub(crate) plans: Option<&'a [&'a RowPlan]>,
}

impl Operands<'_, '_, '_> {
    /// Where the outputs lie.
    pub(super) fn views(&self) -> Views<'_> {
        self.outputs.iter().map(AnyViewMut::as_view).collect()
    }
}

/// One list of all inputs, which must be as many as the kernel has.
pub(super) fn flat_inputs<'t>(kernel: &Kernel, inputs: &[Vec<AnyView<'t>>]) -> Result<Vec<AnyView<'t>>, Error> {
    arguments(kernel, "inputs", kernel.inputs.len(), inputs.len())?;
    for (input, tensors) in kernel.inputs.iter().zip(inputs) {
        tensor_count(&input.name, input.count as usize, tensors.len())?;
    }
    Ok(inputs.concat())
}

/// One list of all outputs.
pub(super) fn flat_outputs<'a, 't>(
    kernel: &Kernel,
    outputs: &'a mut [Vec<AnyViewMut<'t>>],
) -> Result<Vec<AnyViewMut<'a>>, Error>
where
    't: 'a,
{
    check_outputs(kernel, outputs.iter().map(Vec::len))?;
    Ok(outputs.iter_mut().flatten().map(AnyViewMut::reborrow).collect())
}

/// The same, only to be looked at.
pub(super) fn flat_views<'a>(kernel: &Kernel, outputs: &'a [Vec<AnyViewMut<'_>>]) -> Result<Vec<AnyView<'a>>, Error> {
    check_outputs(kernel, outputs.iter().map(Vec::len))?;
    Ok(outputs.iter().flatten().map(AnyViewMut::as_view).collect())
}

/// The same of views.
pub(super) fn flat_output_views<'t>(kernel: &Kernel, outputs: &[Vec<AnyView<'t>>]) -> Result<Vec<AnyView<'t>>, Error> {
    check_outputs(kernel, outputs.iter().map(Vec::len))?;
    Ok(outputs.concat())
}

fn check_outputs(kernel: &Kernel, tensors: impl ExactSizeIterator<Item = usize>) -> Result<(), Error> {
    arguments(kernel, "outputs", kernel.outputs.len(), tensors.len())?;
    for (output, tensors) in kernel.outputs.iter().zip(tensors) {
        tensor_count(&output.name, output.tensors(), tensors)?;
    }
    Ok(())
}

/// Whether a call has as many of something as the kernel.
pub(crate) fn arguments(kernel: &Kernel, what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Arguments { kernel: kernel.name.clone(), what, expected, found })
}
