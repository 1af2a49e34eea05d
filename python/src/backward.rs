//! The derived backward, into arrays that Python made.

use pyo3::prelude::*;
use rowloom::{AnyView, AnyViewMut, Declaration, Device, Error, RowPlan};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::Matrix;
use crate::borrowed;
use crate::call::{self, Matrices, Named, Optional, Reader};
use crate::error::Refused;
use crate::items::{Items, Plans};
use crate::place::Place;
use crate::plan;
use crate::scratch::{with_scratch, workspace};

/// A call of the backward.
pub(crate) struct Backward {
    pub(crate) declaration: &'static Declaration,
    pub(crate) stream: u64,
}

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
        let ask = |bytes| allocate.call1((bytes,));
        with_scratch(py, arrays.place, 0, ask, |scratch| self.launch(&arrays, Some(scratch)))?;
        Ok(())
    }

    /// With scratch memory, which may be none; without, the runtime allocates what is needed.
    fn launch(&self, arrays: &Arrays<'_>, scratch: Option<Option<&Matrix<'_>>>) -> Result<(), Error> {
        let (device, stream) = (arrays.place.device()?, arrays.place.stream(self.stream)?);
        let mut workspace = scratch.map(|scratch| workspace(&stream, scratch)).transpose()?;
        let (inputs, cotangents, plans) =
            (arrays.inputs(device)?, call::views(device, &arrays.cotangents)?, arrays.plans());
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
        let gradients = arrays.gradients(device)?;
        generated::backward_into(&stream, self.declaration, arguments, gradients, workspace.as_mut())
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
