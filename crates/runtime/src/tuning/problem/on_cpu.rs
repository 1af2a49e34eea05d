//! What the CPU executor makes of a problem.

use rowloom_codegen::Subject;
use rowloom_codegen::cuda::PlanArray;

use super::{Outputs, Problem, Which, Words};
use crate::call::{self, Call};
use crate::error::Error;
use crate::launch::IndexFault;
use crate::plan::RowPlan;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut};

/// The word of no error.
const NO_ERROR: u64 = u64::MAX;

impl Problem {
    /// What the CPU executor writes: the stream is the CPU's.
    pub(in crate::tuning) fn on_cpu(&self, which: Which) -> Result<(Outputs, Words), Error> {
        match &self.subject {
            Subject::Kernel { kernel, spec } => {
                let mut outputs = self.outputs()?;
                let inputs = self.views(which);
                let plans: Vec<&RowPlan> = self.packing(which).plans.iter().collect();
                let plans = spec.planned.then_some(plans.as_slice());
                let mut views: Vec<Vec<AnyViewMut<'_>>> =
                    outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
                let call = Call { inputs: &inputs, outputs: &mut views, plans, schedule: None, workspace: None };
                call::run(&self.stream, kernel, call)?;
                Ok((outputs, if spec.planned { Vec::new() } else { vec![NO_ERROR] }))
            }
            Subject::Plan(shape) => {
                let term = |(at, term): (usize, &rowloom_codegen::cuda::Term)| crate::plan::Term {
                    name: at.to_string(),
                    factor: term.factor,
                    bound: term.bound,
                    pad: term.pad,
                };
                let shape = crate::plan::RowShape {
                    terms: shape.terms.iter().enumerate().map(term).collect(),
                    offset: shape.offset,
                    rows: shape.rows,
                    block: shape.block,
                };
                let indices: Vec<AnyView<'_>> = self.views(which).concat();
                let plan = RowPlan::build(&self.stream, &shape, &indices)?;
                let words = vec![NO_ERROR, plan.blocks(), plan.partials(), plan.positions() - plan.rowless()];
                let copy = |array| {
                    let elements = plan.array(array).to_vec::<u32>(&self.stream)?;
                    Ok(vec![AnyTensor::from_slice(&self.stream, &elements, elements.len() as u64, 1)?])
                };
                Ok((PlanArray::ALL.into_iter().map(copy).collect::<Result<_, Error>>()?, words))
            }
        }
    }

    /// The error word of the CPU executor where indices are bad: the stream is the CPU's.
    pub(in crate::tuning) fn bad_on_cpu(&self) -> Result<u64, Error> {
        let number = |argument: &str| match &self.subject {
            Subject::Kernel { kernel, .. } => kernel.inputs.iter().position(|input| input.name == argument),
            Subject::Plan(_) => argument.parse().ok(),
        };
        match self.on_cpu(Which::Bad) {
            Ok(_) => Ok(NO_ERROR),
            Err(Error::Index { argument, position, .. }) => {
                let Some(term) = number(&argument) else { unreachable!("it is an index of the subject") };
                Ok(IndexFault { position, term }.word())
            }
            Err(other) => Err(other),
        }
    }
}
