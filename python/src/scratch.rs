//! Scratch memory that a call takes from whoever owns the arrays.

use pyo3::prelude::*;
use rowloom::codegen::IntType;
use rowloom::{ElementType, Error, Stream, Workspace};

use crate::argument::{Argument, Holds};
use crate::array::{Array, Matrix};
use crate::borrowed;
use crate::call;
use crate::error::Refused;
use crate::place::Place;

const SCRATCH: Argument<'static> = Argument::of("the workspace", Holds::One(ElementType::Int(IntType::U8)));

/// Makes a planned call, given its scratch memory: none at first, or `known` bytes, and as much as it asks for then.
/// Gives what it took.
pub(crate) fn with_scratch<'py>(
    py: Python<'py>,
    place: Place,
    known: u64,
    allocate: impl Fn(u64) -> PyResult<Bound<'py, PyAny>>,
    call: impl Fn(Option<&Matrix<'_>>) -> Result<(), Error> + Sync,
) -> Result<u64, Refused> {
    let mut bytes = known;
    loop {
        let memory = if bytes == 0 { None } else { Some(allocate(bytes)?) };
        let scratch = memory.as_ref().map(|memory| stretch(memory, place)).transpose()?;
        match py.detach(|| call(scratch.as_ref())) {
            Ok(()) => return Ok(bytes),
            Err(Error::WorkspaceTooSmall { needed, .. }) if needed > bytes => bytes = needed,
            Err(error) => return Err(error.into()),
        }
    }
}

/// A workspace over it.
pub(crate) fn workspace(stream: &Stream, scratch: Option<&Matrix<'_>>) -> Result<Workspace, Error> {
    match scratch {
        Some(scratch) => borrowed::workspace(stream, scratch),
        None => Ok(Workspace::new(stream)),
    }
}

/// One stretch of bytes on the device of the call.
fn stretch<'a>(memory: &'a Bound<'_, PyAny>, place: Place) -> Result<Matrix<'a>, Refused> {
    let matrix = Array::read(memory, SCRATCH)?.matrix(SCRATCH)?;
    let (_, scratch) = call::stretch(call::writable((SCRATCH, matrix))?)?;
    if scratch.place != place {
        let (argument, found) = (SCRATCH.to_string(), scratch.place.to_string());
        return Err(Error::WrongDevice { argument, expected: place.to_string(), found }.into());
    }
    Ok(scratch)
}
