//! The derived backward, into arrays that Python made.

use pyo3::prelude::*;
use rowloom::codegen::IntType;
use rowloom::{AnyView, AnyViewMut, Declaration, Device, ElementType, Error, RowPlan, Workspace};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::argument::{Argument, Holds};
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
    workspace: Option<Named<'a, 'static>>,
}

impl Backward {
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        inputs: &Items<'_>,
        cotangents: &Items<'_>,
        gradients: &Items<'_>,
        plans: Option<&Plans<'_>>,
        workspace: Option<&Bound<'_, PyAny>>,
    ) -> Result<(), Refused> {
        let arrays = self.read(inputs, cotangents, gradients, plans, workspace)?;
        py.detach(|| {
            let (device, stream) = (arrays.place.device()?, arrays.place.stream(self.stream)?);
            let mut workspace =
                arrays.workspace.as_ref().map(|(_, bytes)| borrowed::workspace(&stream, bytes)).transpose()?;
            let workspace: Option<&mut Workspace> = workspace.as_mut();
            let (inputs, cotangents, plans) =
                (arrays.inputs(device)?, call::views(device, &arrays.cotangents)?, arrays.plans());
            let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
            generated::backward_into(&stream, self.declaration, arguments, arrays.gradients(device)?, workspace)
        })
        .map_err(|error: Error| error.into())
    }

    pub(crate) fn workspace_bytes(
        &self,
        py: Python<'_>,
        inputs: &Items<'_>,
        cotangents: &Items<'_>,
        gradients: &Items<'_>,
        plans: &Plans<'_>,
    ) -> Result<u64, Refused> {
        let arrays = self.read(inputs, cotangents, gradients, Some(plans), None)?;
        py.detach(|| {
            let (device, stream) = (arrays.place.device()?, arrays.place.stream(self.stream)?);
            let (inputs, cotangents, plans) =
                (arrays.inputs(device)?, call::views(device, &arrays.cotangents)?, arrays.plans());
            let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
            generated::backward_workspace_bytes(&stream, self.declaration, arguments, arrays.gradients(device)?)
        })
        .map_err(|error: Error| error.into())
    }

    fn read<'a>(
        &self,
        inputs: &'a Items<'_>,
        cotangents: &'a Items<'_>,
        gradients: &'a Items<'_>,
        plans: Option<&Plans<'_>>,
        workspace: Option<&'a Bound<'_, PyAny>>,
    ) -> Result<Arrays<'a>, Refused> {
        let kernel = self.declaration.forward();
        let mut reader = Reader::new(kernel);
        let inputs = reader.some_inputs(inputs)?;
        let cotangents = reader.cotangents(cotangents)?;
        let gradients = reader.gradients(gradients)?;
        let workspace =
            workspace.map(|bytes| call::stretch(call::writable(reader.read(bytes, WORKSPACE)?)?)).transpose()?;
        let place = reader.place()?;
        let written = gradients.iter().flatten().chain(&workspace);
        call::apart(place, written, inputs.iter().flatten().chain(&cotangents))?;
        let plans = plans.map(|plans| plan::plans(kernel, place, plans)).transpose()?;
        Ok(Arrays { place, inputs, cotangents, gradients, plans, workspace })
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
