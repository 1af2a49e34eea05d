//! The derived backward, into arrays that Python made.

use pyo3::prelude::*;
use rowloom::codegen::IntType;
use rowloom::{AnyView, AnyViewMut, Declaration, Device, ElementType, Error, RowPlan};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::argument::{Argument, Holds};
use crate::array::{Array, Matrix};
use crate::borrowed;
use crate::call::{self, Matrices, Named, Optional, Reader};
use crate::device::Place;
use crate::error::Refused;
use crate::items::{Items, Plans};
use crate::plan;

/// A call of the backward.
pub(crate) struct Backward {
    pub(crate) declaration: &'static Declaration,
    pub(crate) stream: u64,
}

const WORKSPACE: Argument<'static> = Argument::of("the workspace", Holds::One(ElementType::Int(IntType::U8)));

/// Its arrays.
struct Arrays<'a> {
    place: Place,
    inputs: Optional<'a, 'static>,
    cotangents: Matrices<'a, 'static>,
    gradients: Optional<'a, 'static>,
    plans: Option<plan::Owned>,
}

impl Backward {
    /// `allocate` gives scratch memory of so many bytes; without it the runtime does.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        inputs: &Items<'_>,
        cotangents: &Items<'_>,
        gradients: &Items<'_>,
        plans: Option<&Plans<'_>>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> Result<(), Refused> {
        let arrays = self.read(inputs, cotangents, gradients, plans)?;
        let Some(allocate) = allocate else { return Ok(py.detach(|| self.launch(&arrays, None))?) };
        let bytes = py.detach(|| self.workspace_bytes(&arrays))?;
        if bytes == 0 {
            return Ok(py.detach(|| self.launch(&arrays, None))?);
        }
        let memory = allocate.call1((bytes,))?;
        let (_, workspace) =
            call::stretch(call::writable((WORKSPACE, Array::read(&memory, WORKSPACE)?.matrix(WORKSPACE)?))?)?;
        if workspace.place != arrays.place {
            let (argument, found) = (WORKSPACE.to_string(), workspace.place.to_string());
            return Err(Error::WrongDevice { argument, expected: arrays.place.to_string(), found }.into());
        }
        Ok(py.detach(|| self.launch(&arrays, Some(&workspace)))?)
    }

    fn launch(&self, arrays: &Arrays<'_>, workspace: Option<&Matrix<'_>>) -> Result<(), Error> {
        let (device, stream) = (arrays.place.device()?, arrays.place.stream(self.stream)?);
        let mut workspace = workspace.map(|bytes| borrowed::workspace(&stream, bytes)).transpose()?;
        let (inputs, cotangents, plans) =
            (arrays.inputs(device)?, call::views(device, &arrays.cotangents)?, arrays.plans());
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
        let gradients = arrays.gradients(device)?;
        generated::backward_into(&stream, self.declaration, arguments, gradients, workspace.as_mut())
    }

    fn workspace_bytes(&self, arrays: &Arrays<'_>) -> Result<u64, Error> {
        let (device, stream) = (arrays.place.device()?, arrays.place.stream(self.stream)?);
        let (inputs, cotangents, plans) =
            (arrays.inputs(device)?, call::views(device, &arrays.cotangents)?, arrays.plans());
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
        generated::backward_workspace_bytes(&stream, self.declaration, arguments, arrays.gradients(device)?)
    }

    fn read<'a>(
        &self,
        inputs: &'a Items<'_>,
        cotangents: &'a Items<'_>,
        gradients: &'a Items<'_>,
        plans: Option<&Plans<'_>>,
    ) -> Result<Arrays<'a>, Refused> {
        let kernel = self.declaration.forward();
        let mut reader = Reader::new(kernel);
        let inputs = reader.some_inputs(inputs)?;
        let cotangents = reader.cotangents(cotangents)?;
        let gradients = reader.gradients(gradients)?;
        let place = reader.place()?;
        call::apart(place, gradients.iter().flatten(), inputs.iter().flatten().chain(&cotangents))?;
        let plans = plans.map(|plans| plan::plans(kernel, place, plans)).transpose()?;
        Ok(Arrays { place, inputs, cotangents, gradients, plans })
    }
}

impl Arrays<'_> {
    fn inputs<'a>(&'a self, device: &'a Device) -> Result<SmallVec<[Option<AnyView<'a>>; 8]>, Error> {
        let view = |input: &'a Option<Named<'_, '_>>| {
            input.as_ref().map(|(_, matrix)| borrowed::view(device, matrix)).transpose()
        };
        self.inputs.iter().map(view).collect()
    }

    fn gradients<'a>(&'a self, device: &'a Device) -> Result<SmallVec<[Option<AnyViewMut<'a>>; 8]>, Error> {
        let view = |gradient: &'a Option<Named<'_, '_>>| {
            gradient.as_ref().map(|(_, matrix)| borrowed::view_mut(device, matrix)).transpose()
        };
        self.gradients.iter().map(view).collect()
    }

    fn plans(&self) -> Option<SmallVec<[&RowPlan; 2]>> {
        self.plans.as_ref().map(|plans| plans.iter().collect())
    }
}
