//! Plans as plain data: a state that others own, and sizes.

use pyo3::prelude::*;
use rowloom::codegen::{IntType, Kernel};
use rowloom::{Declaration, ElementType, Error, PlanSizes, RowPlan, row_shape};
use smallvec::SmallVec;

use crate::argument::{Argument, Holds};
use crate::array::{Array, Matrix};
use crate::borrowed;
use crate::call::{self, Named, Reader};
use crate::error::Refused;
use crate::items::{Counts, Items, PlanData, Plans, Sizes};
use crate::place::Place;

/// Plans on the stack.
pub(crate) type Owned = SmallVec<[RowPlan; 2]>;

const STATE: Argument<'static> = Argument::of("the state of the plan", Holds::One(ElementType::Int(IntType::I32)));

/// The plans of a call, one for each row expression, on the device of the call.
pub(crate) fn plans(kernel: &Kernel, place: Place, plans: &Plans<'_>) -> Result<Owned, Refused> {
    let (found, expected) = (plans.0.len(), kernel.rows.len());
    if found != expected {
        return Err(Error::Arguments { kernel: kernel.name.clone(), what: "plans", expected, found }.into());
    }
    plans.0.iter().map(|plan| lend(place, plan)).collect()
}

fn lend(place: Place, plan: &PlanData<'_>) -> Result<RowPlan, Refused> {
    let state = state(place, &plan.state, elements(plan.sizes.positions, plan.sizes.rows, plan.sizes.block)?)?;
    Ok(borrowed::plan(place.device()?, &state, plan.sizes)?)
}

/// The memory of a state of so many elements.
fn state<'a>(place: Place, object: &'a Bound<'_, PyAny>, elements: u64) -> Result<Matrix<'a>, Refused> {
    let matrix = Array::read(object, STATE)?.matrix(STATE)?;
    if matrix.place != place {
        let (expected, found) = (place.to_string(), matrix.place.to_string());
        return Err(Error::WrongDevice { argument: STATE.to_string(), expected, found }.into());
    }
    let (_, matrix) = call::stretch((STATE, matrix))?;
    if matrix.rows != elements {
        let because = "that is the length of the state of a plan of its sizes".to_owned();
        let (argument, found) = (STATE.to_string(), matrix.rows);
        return Err(Error::Size { argument, axis: "rows", found, expected: elements, because }.into());
    }
    Ok(matrix)
}

/// Length of the state of a plan, in int32.
pub(crate) fn elements(positions: u64, rows: u64, block: u32) -> Result<u64, Error> {
    RowPlan::state_elements(positions, rows, block)
}

/// Builds the plan of one row expression into a state.
pub(crate) fn build(
    py: Python<'_>,
    declaration: &Declaration,
    stream: u64,
    expression: usize,
    indices: &Items<'_>,
    counts: &Counts,
    object: &Bound<'_, PyAny>,
) -> Result<Sizes, Refused> {
    let kernel = declaration.forward();
    let shape = row_shape(kernel, expression, &counts.pairs())?;
    let mut reader = Reader::new(kernel);
    let indices = reader.indices(expression, indices)?;
    let place = reader.place()?;
    let positions = indices.iter().map(|(_, index)| index.rows).next().unwrap_or(0);
    let state = writable(state(place, object, elements(positions, shape.rows, shape.block)?)?)?;
    call::apart(place, std::iter::once(&state), indices.iter())?;
    let sizes = py.detach(|| -> Result<PlanSizes, Error> {
        let views = call::views(place.device()?, call::unnamed(&indices))?;
        borrowed::build_plan(&place.stream(stream)?, &shape, &views, &state.1)
    })?;
    Ok(tuple(sizes))
}

/// Builds the plan of a batch that shares one into a state.
pub(crate) fn repeat(
    py: Python<'_>,
    stream: u64,
    plan: &PlanData<'_>,
    batch: u64,
    object: &Bound<'_, PyAny>,
) -> Result<Sizes, Refused> {
    let place = Array::read(&plan.state, STATE)?.place;
    let PlanSizes { positions, rows, block, .. } = plan.sizes;
    let one = state(place, &plan.state, elements(positions, rows, block)?)?;
    let repeated = lend(place, plan)?;
    let all = elements(positions.saturating_mul(batch), rows, block)?;
    let state = writable(state(place, object, all)?)?;
    call::apart(place, std::iter::once(&state), std::iter::once(&(STATE, one)))?;
    let sizes = py.detach(|| borrowed::repeat_plan(&place.stream(stream)?, &repeated, batch, &state.1))?;
    Ok(tuple(sizes))
}

fn writable(matrix: Matrix<'_>) -> Result<Named<'_, 'static>, Refused> {
    call::writable((STATE, matrix))
}

fn tuple(sizes: PlanSizes) -> Sizes {
    let PlanSizes { positions, rows, block, blocks, partials, rowless } = sizes;
    (positions, rows, block, blocks, partials, rowless)
}
