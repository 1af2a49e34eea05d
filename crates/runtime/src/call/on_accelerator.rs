//! Calls on an accelerator.

use std::sync::Arc;

use rowloom_codegen::ir::{InputKind, RowId};
use rowloom_codegen::{Spec, Verified};

use super::{Call, rows};
use crate::device::Stream;
use crate::engine::{DeviceMemory, Queue};
use crate::error::Error;
use crate::launch::{IndexFault, Place, Places, PlanPlace, execute};
use crate::plan::{RowPlan, Term, fault};
use crate::tensor::{AnyView, AnyViewMut};

pub(super) fn run(
    stream: &Stream,
    queue: &Arc<Queue>,
    kernel: &Verified,
    spec: &Spec,
    positions: u64,
    call: Call<'_, '_>,
) -> Result<(), Error> {
    let Call { inputs, outputs, plans, schedule, workspace } = call;
    let ready = queue.engine.kernel(kernel, spec, schedule)?;
    let built = match plans {
        None if spec.planned => build(stream, kernel, spec, inputs)?,
        None | Some(_) => Vec::new(),
    };
    let plans = plans.map_or_else(|| built.iter().collect(), <[&RowPlan]>::to_vec);
    let all = |tensors: &Vec<AnyView<'_>>| tensors.iter().map(|view| Place::of(queue, view)).collect();
    let all_mut =
        |tensors: &Vec<AnyViewMut<'_>>| tensors.iter().map(|view| Place::of(queue, &view.as_view())).collect();
    let places = Places {
        positions,
        inputs: inputs.iter().map(all).collect::<Result<_, _>>()?,
        outputs: outputs.iter().map(all_mut).collect::<Result<_, _>>()?,
        plans: plans.iter().map(|plan| PlanPlace::of(queue, plan)).collect(),
    };
    let bytes = places.scratch_bytes(&ready.source);
    let found = match workspace {
        Some(workspace) => execute(queue, &ready, &places, workspace.memory(queue, bytes)?)?,
        None => execute(queue, &ready, &places, &mut DeviceMemory::allocate(queue, bytes)?)?,
    };
    found.map_or(Ok(()), |found| Err(index_error(stream, kernel, spec, inputs, found)?))
}

/// One plan for each row expression.
fn build(stream: &Stream, kernel: &Verified, spec: &Spec, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<RowPlan>, Error> {
    rows::all(kernel, |row: RowId| {
        let shape = rows::shape(kernel, spec, row);
        RowPlan::build(stream, &shape, &rows::indices(kernel, inputs, row))
    })
}

/// The error of a bad index that the kernel itself has found.
fn index_error(
    stream: &Stream,
    kernel: &Verified,
    spec: &Spec,
    inputs: &[Vec<AnyView<'_>>],
    found: IndexFault,
) -> Result<Error, Error> {
    let input = &kernel.inputs[found.term];
    let InputKind::Index { bound, pad, .. } = input.kind else { unreachable!("only indices are checked") };
    let value = inputs[found.term][0].integer(stream, found.position)?;
    let term = Term { name: input.name.clone(), factor: 1, bound: spec.extent(bound), pad };
    Ok(fault(&term, found.position, value))
}
