//! The backward of a planned call that is made again.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowloom::Error;
use rowloom_runtime::generated;
use smallvec::SmallVec;

use super::{Argument, Launch, Matrices};
use crate::array::exchange::Described;
use crate::array::{Matrix, torch};
use crate::call;
use crate::error::Refused;
use crate::place::Place;
use crate::scratch::{with_scratch, workspace};

/// What `Launch.backward` does.
pub(super) fn backward<'py>(
    launch: &Launch,
    py: Python<'py>,
    needed: Vec<bool>,
    cotangents: &Bound<'py, PyTuple>,
) -> Result<Option<Bound<'py, PyTuple>>, Refused> {
    for watcher in &launch.watchers {
        if watcher.bind(py).call0()?.is_truthy()? {
            return Ok(None);
        }
    }
    if needed.len() != launch.arguments.len() {
        return Err(launch.misused());
    }
    if launch.is_edited(py) {
        return Ok(None);
    }
    let differentiable = |(argument, needed): (&Argument, bool)| needed && argument.index.is_none();
    let wanted: SmallVec<[bool; 8]> = launch.arguments.iter().zip(needed).map(differentiable).collect();
    let Some(given) = launch.cotangents(cotangents)? else { return Ok(None) };
    let like = cotangents.get_borrowed_item(0)?;
    let mut memories: SmallVec<[Option<Bound<'py, PyAny>>; 8]> = SmallVec::new();
    let mut gradients: SmallVec<[Option<Matrix<'_>>; 8]> = SmallVec::new();
    for ((argument, (shape, dtype)), wanted) in launch.arguments.iter().zip(&launch.gradients).zip(&wanted) {
        if !wanted {
            memories.push(None);
            gradients.push(None);
            continue;
        }
        let memory = like.getattr(intern!(py, "new_empty"))?.call(shape.bind(py), Some(dtype.bind(py)))?;
        let Matrix { rows, columns, ty, .. } = Matrix::like(&argument.facts);
        gradients.push(Some(Matrix::dense(launch.place, ty, address(&memory)?, rows, columns)));
        memories.push(Some(memory));
    }
    let known = launch.scratch_bytes(&wanted);
    let differentiate = |scratch: Option<&Matrix<'_>>| launch.differentiate(&given, &gradients, scratch);
    let bytes = with_scratch(py, launch.place, known, |bytes| launch.scratch(&like, bytes), differentiate)?;
    if bytes != known {
        launch.note_scratch_bytes(&wanted, bytes);
    }
    Ok(Some(PyTuple::new(py, memories)?))
}

impl Launch {
    /// Launches the backward.
    fn differentiate(
        &self,
        cotangents: &[Matrix<'_>],
        gradients: &[Option<Matrix<'_>>],
        scratch: Option<&Matrix<'_>>,
    ) -> Result<(), Error> {
        let device = self.place.device()?;
        let inputs: Matrices<'_> = self.arguments.iter().map(|argument| Matrix::like(&argument.facts)).collect();
        // Whoever remembered this knows that its backward reads plans alone, and of indices their types.
        let read =
            inputs.iter().zip(&self.arguments).map(|(input, argument)| argument.index.is_some().then_some(input));
        let inputs = call::some_views(device, read)?;
        let cotangents = call::views(device, cotangents.iter())?;
        let gradients = call::some_views_mut(device, gradients.iter().map(Option::as_ref))?;
        let plans = self.plans();
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: Some(&plans) };
        let mut workspace = workspace(&self.stream, scratch)?;
        generated::backward_into(&self.stream, self.declaration, arguments, gradients, Some(&mut workspace))
    }

    /// Cotangents that a kernel can read as they are, on the stream of the forward.
    fn cotangents<'a>(&self, cotangents: &'a Bound<'_, PyTuple>) -> Result<Option<Matrices<'a>>, Refused> {
        let py = cotangents.py();
        let mut matrices = Matrices::new();
        for cotangent in cotangents.iter_borrowed() {
            let Some(exchange) = torch::exchange(&cotangent) else { return Ok(None) };
            let Some(facts) = exchange.describe(&cotangent) else { return Ok(None) };
            let Described { axes, sizes, strides, place, address, .. } = facts;
            let readable = axes == 2 && (strides[1] == 1 || sizes[1] == 1) && address != 0;
            if !readable || place != self.place || torch::is_negated(&cotangent, facts.ty)? {
                return Ok(None);
            }
            if matrices.is_empty() {
                let Place::Cuda(ordinal) = place else { return Ok(None) };
                if exchange.current_stream(py, ordinal) != Some(self.raw) {
                    return Ok(None);
                }
            }
            matrices.push(Matrix::of(facts));
        }
        Ok((!matrices.is_empty()).then_some(matrices))
    }
}

/// Of memory that was made just now.
fn address(memory: &Bound<'_, PyAny>) -> Result<u64, Refused> {
    Ok(memory.call_method0(intern!(memory.py(), "data_ptr"))?.extract()?)
}
