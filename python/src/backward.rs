//! The derived backward, into arrays that Python made.

use pyo3::prelude::*;
use rowloom::{Declaration, Error, RowPlan};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::Matrix;
use crate::call::{self, Matrices, Optional, Reader};
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
        let inputs = call::some_views(device, call::some_unnamed(&arrays.inputs))?;
        let cotangents = call::views(device, call::unnamed(&arrays.cotangents))?;
        let plans: Option<SmallVec<[&RowPlan; 2]>> = arrays.plans.as_ref().map(|plans| plans.iter().collect());
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: plans.as_deref() };
        let gradients = call::some_views_mut(device, call::some_unnamed(&arrays.gradients))?;
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
