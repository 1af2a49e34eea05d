//! Plans: the validated rows of the positions of one call, sorted, as data that
//! any kernel over the same positions and rows can use again.

mod accelerated;
mod lent;
mod on_cpu;
mod pending;
mod shape;
mod sizes;

use std::fmt;

use rowloom_codegen::PlanSchedule;
use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::ir::Order;

pub(crate) use on_cpu::{HostPlan, fault, validated_rows};
pub use pending::PendingPlan;
use pending::Work;
pub(crate) use shape::MAX_POSITIONS;
use shape::check_blocks;
pub use shape::{RowShape, Term};
pub use sizes::PlanSizes;
use sizes::{StateLayout, check_limits};

use crate::device::Device;
use crate::element::ElementType;
use crate::engine::Submission;
use crate::error::Error;
use crate::launch::PlanPlace;
use crate::stream::{Lane, Stream};
use crate::tensor::{AnyTensor, AnyView};

/// For S positions and R rows: which row each position names, and the positions
/// of each row in order, cut into blocks. It holds its own copy of everything:
/// later edits of the indices do not change it, and several streams may use it
/// at once. About 8 bytes a position and 16 a row.
///
/// All its arrays are one *state*, so that it can be lent by and to another framework as one
/// tensor of u32 with its [`PlanSizes`]: [`RowPlan::build_at`], [`RowPlan::from_raw`].
pub struct RowPlan {
    state: AnyTensor,
    layout: StateLayout,
    sizes: PlanSizes,
}

impl RowPlan {
    /// The plan of positions whose row is given: (S,), each in `0..rows`.
    ///
    /// # Errors
    /// As [`RowPlan::build`]; the index is called `row`.
    pub fn new(stream: &Stream, row: AnyView<'_>, rows: u64) -> Result<RowPlan, Error> {
        let terms = vec![Term { name: "row".to_owned(), factor: 1, bound: rows, pad: None }];
        let shape = RowShape { terms, offset: 0, rows, block: Order::default().block };
        RowPlan::build(stream, &shape, &[row])
    }

    /// The plan of rows `sum of index * factor`, each index (S,) in `0..bound`;
    /// the row count is one more than the largest such row.
    ///
    /// # Errors
    /// As [`RowPlan::build`]; the indices are called `index 0`, `index 1`, ….
    pub fn affine(stream: &Stream, terms: &[(AnyView<'_>, u64, u64)]) -> Result<RowPlan, Error> {
        let named = |(at, &(_, factor, bound)): (usize, &(AnyView<'_>, u64, u64))| Term {
            name: format!("index {at}"),
            factor,
            bound,
            pad: None,
        };
        let mut shape = RowShape {
            terms: terms.iter().enumerate().map(named).collect(),
            offset: 0,
            rows: u64::MAX,
            block: Order::default().block,
        };
        let rows = shape.largest().saturating_add(1);
        shape.rows = u64::try_from(rows).unwrap_or(u64::MAX);
        let indices: Vec<AnyView<'_>> = terms.iter().map(|&(view, _, _)| view).collect();
        RowPlan::build(stream, &shape, &indices)
    }

    /// The plan of a row expression. `indices` run parallel to its terms, each
    /// (S,) of u8, i32 or i64. Waits for the stream once.
    ///
    /// # Errors
    /// [`Error::Index`] for the smallest position at which an index is out of
    /// its own bound; [`Error::OutOfMemory`]; typed errors for sizes, types and devices.
    pub fn build(stream: &Stream, shape: &RowShape, indices: &[AnyView<'_>]) -> Result<RowPlan, Error> {
        RowPlan::queue(stream, shape, indices)?.wait()
    }

    /// The same without waiting: the work is queued, [`PendingPlan::wait`] gives the plan.
    ///
    /// # Errors
    /// As [`RowPlan::build`], but for indices, of which [`PendingPlan::wait`] says.
    pub fn queue<'t>(stream: &Stream, shape: &RowShape, indices: &[AnyView<'t>]) -> Result<PendingPlan<'t>, Error> {
        RowPlan::queue_with(stream, shape, indices, None)
    }

    /// The same under a schedule; `None` is the chosen one. A CPU has none.
    ///
    /// # Errors
    /// As [`RowPlan::queue`]; [`Error::Schedule`] for a schedule that is not legal.
    pub fn queue_with<'t>(
        stream: &Stream,
        shape: &RowShape,
        indices: &[AnyView<'t>],
        schedule: Option<PlanSchedule>,
    ) -> Result<PendingPlan<'t>, Error> {
        RowPlan::queue_into(stream, shape, indices, schedule, |elements| owned(stream, elements))
    }

    /// The same with its state where `state` puts so many elements.
    fn queue_into<'t>(
        stream: &Stream,
        shape: &RowShape,
        indices: &[AnyView<'t>],
        schedule: Option<PlanSchedule>,
        state: impl FnOnce(u64) -> Result<AnyTensor, Error>,
    ) -> Result<PendingPlan<'t>, Error> {
        let positions = shape.check(stream, indices)?;
        stream.unclaimed_error()?;
        if let Lane::Accelerator(queue) = &stream.0 {
            queue.refuse_capture("building a plan")?;
        }
        let plan = Unfilled::new(positions, shape.rows, shape.block, state)?;
        let work = match &stream.0 {
            Lane::Cpu(host) => Work::Done(Box::new(on_cpu::build(plan, &host.tiling, shape, indices))),
            Lane::Accelerator(queue) => {
                Work::Queued(Box::new(accelerated::build(plan, queue, shape, indices, schedule)?))
            }
        };
        Ok(PendingPlan { stream: stream.clone(), shape: shape.clone(), indices: indices.to_vec(), work })
    }

    /// The plan of `batch` sequences that share this one's rows: position `b * S + s`, sequence
    /// after sequence, has the row of position `s`. Waits for the stream once.
    ///
    /// # Errors
    /// [`Error::Zero`] for no sequence, [`Error::TooManyPositions`] and [`Error::TooManyBlocks`]
    /// beyond 32 bits, [`Error::WrongDevice`] for a plan of another device, [`Error::OutOfMemory`].
    pub fn repeat(&self, stream: &Stream, batch: u64) -> Result<RowPlan, Error> {
        self.repeat_into(stream, batch, |elements| owned(stream, elements))
    }

    /// The same with its state where `state` puts so many elements.
    fn repeat_into(
        &self,
        stream: &Stream,
        batch: u64,
        state: impl FnOnce(u64) -> Result<AnyTensor, Error>,
    ) -> Result<RowPlan, Error> {
        let argument = || "the batch of the plan".to_owned();
        if !self.is_on(stream) {
            return Err(self.state.view().wrong_device("the plan", stream));
        }
        if batch == 0 {
            return Err(Error::Zero { argument: argument(), axis: "sequences" });
        }
        let PlanSizes { positions, rows, block, .. } = self.sizes;
        let positions = positions.saturating_mul(batch);
        if positions > MAX_POSITIONS {
            return Err(Error::TooManyPositions { argument: argument(), positions, limit: MAX_POSITIONS });
        }
        check_blocks(positions, rows, block)?;
        stream.unclaimed_error()?;
        if let Lane::Accelerator(queue) = &stream.0 {
            queue.refuse_capture("building a plan")?;
        }
        let plan = Unfilled::new(positions, rows, block, state)?;
        match &stream.0 {
            Lane::Cpu(_) => on_cpu::repeat(plan, stream, self),
            Lane::Accelerator(queue) => match accelerated::repeat(plan, queue, self)?.finish()? {
                Ok(plan) => Ok(plan),
                Err(_) => unreachable!("the rows of a plan have been checked"),
            },
        }
    }

    /// Elements of the state of a plan, each a u32: six arrays in the order of [`PlanArray::ALL`], each
    /// beginning at a multiple of 16 bytes. What lies between them, and behind the last block, means nothing.
    ///
    /// # Errors
    /// [`Error::Zero`], [`Error::TooManyPositions`], [`Error::TooManyRows`] and [`Error::TooManyBlocks`].
    pub fn state_elements(positions: u64, rows: u64, block: u32) -> Result<u64, Error> {
        check_limits(positions, rows, block)?;
        Ok(StateLayout::of(positions, rows, block).elements)
    }

    /// Its numbers: with its state they are all of it.
    pub fn sizes(&self) -> PlanSizes {
        self.sizes
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.state.device()
    }

    /// Whether it is on the stream's device.
    pub(crate) fn is_on(&self, stream: &Stream) -> bool {
        self.state.view().is_on(stream)
    }

    /// S.
    pub fn positions(&self) -> u64 {
        self.sizes.positions
    }

    /// R.
    pub fn rows(&self) -> u64 {
        self.sizes.rows
    }

    /// Positions of a block.
    pub fn block(&self) -> u32 {
        self.sizes.block
    }

    /// Blocks of all rows together; a row has at least one.
    pub fn blocks(&self) -> u64 {
        self.sizes.blocks
    }

    /// Blocks that belong to rows of several.
    pub fn partials(&self) -> u64 {
        self.sizes.partials
    }

    /// Positions without a row.
    pub fn rowless(&self) -> u64 {
        self.sizes.rowless
    }

    /// One of its arrays: one column of u32.
    pub fn array(&self, array: PlanArray) -> AnyView<'_> {
        let PlanSizes { positions, rows, blocks, .. } = self.sizes;
        let length = match array {
            PlanArray::Rows | PlanArray::Order => positions,
            PlanArray::SegmentStart | PlanArray::BlockStart | PlanArray::PartialStart => rows + 1,
            PlanArray::BlockRow => blocks,
        };
        let start = self.layout.start(array);
        self.state.view().rows(start..start + length).expect("the state holds every array")
    }

    /// Where it lies, for a submission on its device. It is complete: nothing waits.
    pub(crate) fn place(&self, queue: &Submission<'_>) -> PlanPlace {
        let view = self.state.view();
        view.share(queue);
        let PlanSizes { positions, blocks, partials, .. } = self.sizes;
        PlanPlace { arrays: self.layout.addresses(view.address()), positions, blocks, partials }
    }

    /// Memory it takes in bytes.
    pub fn bytes(&self) -> u64 {
        self.state.bytes()
    }
}

/// A state of the runtime's own.
fn owned(stream: &Stream, elements: u64) -> Result<AnyTensor, Error> {
    AnyTensor::uninit(stream, ElementType::U32, elements, 1)
}

/// A plan whose state holds nothing yet.
struct Unfilled {
    state: AnyTensor,
    layout: StateLayout,
    positions: u64,
    rows: u64,
    block: u32,
}

impl Unfilled {
    fn new(
        positions: u64,
        rows: u64,
        block: u32,
        state: impl FnOnce(u64) -> Result<AnyTensor, Error>,
    ) -> Result<Unfilled, Error> {
        let layout = StateLayout::of(positions, rows, block);
        Ok(Unfilled { state: state(layout.elements)?, layout, positions, rows, block })
    }

    /// The plan, once its state is filled with that of so many blocks.
    fn filled(self, blocks: u64, partials: u64, rowless: u64) -> RowPlan {
        let Unfilled { state, layout, positions, rows, block } = self;
        RowPlan { state, layout, sizes: PlanSizes { positions, rows, block, blocks, partials, rowless } }
    }
}

impl fmt::Debug for RowPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanSizes { positions, rows, block, blocks, .. } = self.sizes;
        write!(f, "RowPlan({positions} positions, {rows} rows, {blocks} blocks of {block}, on {})", self.device())
    }
}
