//! Plans on an accelerator.

use std::sync::Arc;

use rowloom_codegen::PlanSchedule;
use rowloom_codegen::cuda::{self, PLAN_TOTALS, PlanRepeat, PlanShape};
use smallvec::SmallVec;

use super::{RowPlan, RowShape, Unfilled, fault};
use crate::element::ElementType;
use crate::engine::{DeviceMemory, Queue, Submission, Use};
use crate::error::Error;
use crate::launch::{IndexFault, Place, Places, PlanPlace, TensorPlaces, enqueue, error_words};
use crate::modules::Ready;
use crate::stream::Stream;
use crate::tensor::AnyView;

/// A plan whose work is queued, and the memory that will say its totals.
pub(super) struct Queued {
    queue: Arc<Queue>,
    ready: Arc<Ready>,
    places: Places,
    scratch: Arc<DeviceMemory>,
    plan: Unfilled,
}

/// Queues the work of a plan. The shape and the indices have been checked.
pub(super) fn build(
    plan: Unfilled,
    queue: &Arc<Queue>,
    shape: &RowShape,
    indices: &[AnyView<'_>],
    schedule: Option<PlanSchedule>,
) -> Result<Queued, Error> {
    let ready = queue.engine.plan(&generated(shape, indices), plan.positions, schedule)?;
    let queue = queue.submit()?;
    let inputs = indices.iter().map(|index| Place::joined(&queue, index, Use::Read));
    let inputs = inputs.collect::<Result<_, Error>>()?;
    Queued::start(plan, &queue, ready, inputs, None)
}

/// Queues the work of a plan that repeats another one.
pub(super) fn repeat(plan: Unfilled, queue: &Arc<Queue>, of: &RowPlan) -> Result<Queued, Error> {
    let ready = queue.engine.plan_repeat(&PlanRepeat { rows: plan.rows, block: plan.block })?;
    let queue = queue.submit()?;
    let one = of.place(&queue);
    Queued::start(plan, &queue, ready, TensorPlaces::default(), Some(one))
}

impl Queued {
    /// `one` is the plan that is repeated.
    fn start(
        plan: Unfilled,
        queue: &Submission<'_>,
        ready: Arc<Ready>,
        inputs: TensorPlaces,
        one: Option<PlanPlace>,
    ) -> Result<Queued, Error> {
        let (positions, state) = (plan.positions, plan.state.view());
        state.join(queue, Use::Write)?;
        let arrays = plan.layout.addresses(state.address());
        let made = PlanPlace { arrays, positions, blocks: 0, partials: 0 };
        let plans: SmallVec<_> = [made].into_iter().chain(one).collect();
        let places = Places { positions, inputs, plans, ..Places::default() };
        let scratch = DeviceMemory::allocate(queue, places.scratch_bytes(&ready.source))?;
        enqueue(queue, &ready, &places, Some(scratch.region()))?;
        Ok(Queued { queue: Arc::clone(queue), ready, places, scratch, plan })
    }

    /// The plan, once its work is done.
    ///
    /// # Errors
    /// The first bad index, in an inner `Err`.
    pub(super) fn finish(self) -> Result<Result<RowPlan, IndexFault>, Error> {
        let Queued { queue, ready, places, scratch, plan } = self;
        let words: [u64; 1 + PLAN_TOTALS] = error_words(&queue, &ready, &places, &scratch.region())?;
        let [error, blocks, partials, placed] = words;
        if let Some(found) = IndexFault::of(error) {
            return Ok(Err(found));
        }
        let rowless = plan.positions - placed;
        Ok(Ok(plan.filled(blocks, partials, rowless)))
    }
}

/// The error that a fault of these indices is. Waits for the stream.
pub(super) fn index_error(
    stream: &Stream,
    shape: &RowShape,
    indices: &[AnyView<'_>],
    found: IndexFault,
) -> Result<Error, Error> {
    let value = indices[found.term].integer(stream, found.position)?;
    Ok(fault(&shape.terms[found.term], found.position, value))
}

/// The shape as the generator wants it: no names, but element types.
fn generated(shape: &RowShape, indices: &[AnyView<'_>]) -> PlanShape {
    let term = |(term, index): (&super::Term, &AnyView<'_>)| {
        let ElementType::Int(ty) = index.element_type() else {
            unreachable!("RowShape::check has refused other types");
        };
        cuda::Term { ty, factor: term.factor, bound: term.bound, pad: term.pad }
    };
    PlanShape {
        terms: shape.terms.iter().zip(indices).map(term).collect(),
        offset: shape.offset,
        rows: shape.rows,
        block: shape.block,
    }
}
