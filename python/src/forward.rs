//! A kernel as declared, into arrays that Python made.

use pyo3::prelude::*;
use rowloom::codegen::Kernel;
use rowloom::codegen::ir::{Extent, InputKind, OutputKind};
use rowloom::{Declaration, Error, RowPlan};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::Matrix;
use crate::call::{self, Named, Reader};
use crate::error::Refused;
use crate::items::{Counts, Items, Plans};
use crate::plan;
use crate::scratch::{with_scratch, workspace};

/// A call of the forward.
pub(crate) struct Forward {
    pub(crate) declaration: &'static Declaration,
    pub(crate) stream: u64,
    pub(crate) counts: Counts,
    /// Whether it does not wait for the check of its indices.
    pub(crate) deferred: bool,
}

impl Forward {
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        inputs: &Items<'_>,
        outputs: &Items<'_>,
        plans: Option<&Plans<'_>>,
        allocate: Option<&Bound<'_, PyAny>>,
    ) -> Result<(), Refused> {
        let kernel = self.declaration.forward();
        let mut reader = Reader::new(kernel);
        let (inputs, outputs) = (reader.inputs(inputs)?, reader.outputs(outputs)?);
        check_counts(kernel, &self.counts, &inputs, &outputs)?;
        let place = reader.place()?;
        call::apart(place, outputs.iter(), inputs.iter())?;
        let plans = plans.map(|plans| plan::plans(kernel, place, plans)).transpose()?;
        let plans: Option<SmallVec<[&RowPlan; 2]>> = plans.as_ref().map(|plans| plans.iter().collect());
        // None: the runtime allocates.
        let launch = |scratch: Option<Option<&Matrix<'_>>>| {
            let (device, stream) = (place.device()?, place.stream(self.stream)?);
            let inputs = call::views(device, call::unnamed(&inputs))?;
            let mut outputs = call::views_mut(device, call::unnamed(&outputs))?;
            if self.deferred && plans.is_none() {
                let pending = generated::forward_deferred_into(&stream, self.declaration, &inputs, &mut outputs)?;
                place.keep(self.stream, &stream);
                pending.unchecked();
                return Ok(());
            }
            let mut workspace = scratch.map(|scratch| workspace(&stream, scratch)).transpose()?;
            let (plans, workspace) = (plans.as_deref(), workspace.as_mut());
            generated::forward_into(&stream, self.declaration, &inputs, plans, &mut outputs, workspace)
        };
        match allocate {
            Some(allocate) if plans.is_some() => {
                with_scratch(py, place, 0, |bytes| allocate.call1((bytes,)), |scratch| launch(Some(scratch)))?;
            }
            Some(_) | None => py.detach(|| launch(None))?,
        }
        Ok(())
    }
}

/// Whether row counts that the call gives are those of its tables.
fn check_counts(
    kernel: &Kernel,
    counts: &Counts,
    inputs: &[Named<'_, '_>],
    outputs: &[Named<'_, '_>],
) -> Result<(), Error> {
    for (name, value) in counts.pairs() {
        let Some(at) = kernel.counts.iter().position(|count| count == name) else {
            let choices = if kernel.counts.is_empty() { "none".to_owned() } else { kernel.counts.join(", ") };
            return Err(Error::UnknownCount { kernel: kernel.name.clone(), count: name.to_owned(), choices });
        };
        let mut values = vec![0; kernel.counts.len()];
        values[at] = value;
        let check = |rows: Extent, (argument, matrix): &Named<'_, '_>| {
            let expected = rows.value(&values).unwrap_or(0);
            if rows.count.is_none_or(|count| count.index() != at) || matrix.rows == expected {
                return Ok(());
            }
            let because = format!("it has {} rows, and {name} is {value} in the call", rows.text(&kernel.counts));
            Err(Error::Size { argument: argument.to_string(), axis: "rows", found: matrix.rows, expected, because })
        };
        for (input, array) in kernel.inputs.iter().zip(inputs) {
            if let InputKind::Table { rows, .. } = input.kind {
                check(rows, array)?;
            }
        }
        let tensors = kernel.outputs.iter().flat_map(|output| std::iter::repeat_n(output, output.tensors()));
        for (output, array) in tensors.zip(outputs) {
            if let OutputKind::Table { rows, .. } = output.kind {
                check(rows, array)?;
            }
        }
    }
    Ok(())
}
