//! Plans on an accelerator.

use std::sync::Arc;

use rowloom_codegen::PlanSchedule;
use rowloom_codegen::cuda::{self, PLAN_TOTALS, PlanArray, PlanRepeat, PlanShape};
use smallvec::SmallVec;

use super::{Arrays, RowPlan, RowShape, fault, place};
use crate::element::ElementType;
use crate::engine::{DeviceMemory, Queue, Submission, Use};
use crate::error::Error;
use crate::launch::{IndexFault, Place, Places, PlanPlace, TensorPlaces, enqueue, error_words};
use crate::modules::Ready;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView};

/// A plan whose work is queued: its arrays, and the memory that will say its totals.
pub(super) struct Queued {
    queue: Arc<Queue>,
    ready: Arc<Ready>,
    places: Places,
    scratch: Arc<DeviceMemory>,
    arrays: Arrays,
    rows: u64,
    block: u32,
}

/// Queues the work of a plan. The shape and the indices have been checked.
pub(super) fn build(
    stream: &Stream,
    queue: &Arc<Queue>,
    shape: &RowShape,
    indices: &[AnyView<'_>],
    positions: u64,
    schedule: Option<PlanSchedule>,
) -> Result<Queued, Error> {
    let ready = queue.engine.plan(&generated(shape, indices), positions, schedule)?;
    let queue = queue.submit()?;
    let inputs = indices.iter().map(|index| Place::joined(&queue, index, Use::Read));
    let inputs = inputs.collect::<Result<_, Error>>()?;
    Queued::start(stream, &queue, ready, (shape.rows, shape.block), positions, inputs, None)
}

/// Queues the work of a plan that repeats another one.
pub(super) fn repeat(stream: &Stream, queue: &Arc<Queue>, plan: &RowPlan, batch: u64) -> Result<Queued, Error> {
    let shape = PlanRepeat { rows: plan.rows, block: plan.block };
    let ready = queue.engine.plan_repeat(&shape)?;
    let queue = queue.submit()?;
    let one = plan.place(&queue);
    Queued::start(
        stream,
        &queue,
        ready,
        (plan.rows, plan.block),
        plan.positions * batch,
        TensorPlaces::default(),
        Some(one),
    )
}

impl Queued {
    /// `shape` is rows and positions a block; `one` the plan that is repeated.
    fn start(
        stream: &Stream,
        queue: &Submission<'_>,
        ready: Arc<Ready>,
        (rows, block): (u64, u32),
        positions: u64,
        inputs: TensorPlaces,
        one: Option<PlanPlace>,
    ) -> Result<Queued, Error> {
        let most_blocks = positions / u64::from(block) + rows;
        let size = |array| match array {
            PlanArray::Rows | PlanArray::Order => positions,
            PlanArray::SegmentStart | PlanArray::BlockStart | PlanArray::PartialStart => rows + 1,
            PlanArray::BlockRow => most_blocks,
        };
        let allocate = |array| AnyTensor::uninit(stream, ElementType::U32, size(array), 1);
        let [a, b, c, d, e, f] = PlanArray::ALL.map(allocate);
        let arrays = [a?, b?, c?, d?, e?, f?];
        let addresses = std::array::from_fn(|at| arrays[at].view().address());
        let made = PlanPlace { arrays: addresses, positions, blocks: 0, partials: 0 };
        let plans: SmallVec<_> = [made].into_iter().chain(one).collect();
        let places = Places { positions, inputs, plans, ..Places::default() };
        let scratch = DeviceMemory::allocate(queue, places.scratch_bytes(&ready.source))?;
        enqueue(queue, &ready, &places, Some(scratch.region()))?;
        Ok(Queued { queue: Arc::clone(queue), ready, places, scratch, arrays, rows, block })
    }

    /// The plan, once its work is done.
    ///
    /// # Errors
    /// The first bad index, in an inner `Err`.
    pub(super) fn finish(self, stream: &Stream) -> Result<Result<RowPlan, IndexFault>, Error> {
        let Queued { queue, ready, places, scratch, mut arrays, rows, block } = self;
        let words: [u64; 1 + PLAN_TOTALS] = error_words(&queue, &ready, &places, &scratch.region())?;
        let [error, blocks, partials, placed] = words;
        if let Some(found) = IndexFault::of(error) {
            return Ok(Err(found));
        }
        arrays[place(PlanArray::BlockRow)].truncate(blocks);
        let (device, positions) = (stream.device(), places.positions);
        let rowless = positions - placed;
        Ok(Ok(RowPlan { device, positions, rows, block, arrays, blocks, partials, rowless }))
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
