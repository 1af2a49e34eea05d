//! The numbers of a plan, and how its arrays lie in memory.

use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::spec::MAX_ROWS;

use super::shape::{MAX_POSITIONS, check_blocks};
use crate::element::ElementType;
use crate::error::Error;

/// The numbers of a plan: with its state, all that there is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanSizes {
    /// S.
    pub positions: u64,
    /// R.
    pub rows: u64,
    /// Positions of a block.
    pub block: u32,
    /// Blocks of all rows together; a row has at least one.
    pub blocks: u64,
    /// Blocks that belong to rows of several.
    pub partials: u64,
    /// Positions without a row.
    pub rowless: u64,
}

impl PlanSizes {
    /// Whether some plan has these sizes.
    pub(super) fn check(&self) -> Result<(), Error> {
        let PlanSizes { positions, rows, block, blocks, partials, rowless } = *self;
        check_limits(positions, rows, block)?;
        between("positions without a row", rowless, 0, positions)?;
        let (placed, block) = (positions - rowless, u64::from(block));
        // Each row has a block, and a row of n positions one for each `block` of them, begun or whole.
        between("blocks", blocks, rows.max(placed.div_ceil(block)), rows + placed / block)?;
        // Each row of several has one block more than the rows say, or more.
        let more = blocks - rows;
        between("blocks of rows of several", partials, more + more.min(1), more + more.min(rows))
    }
}

/// Where the arrays of a plan lie in its state: one after the other in the order of
/// [`PlanArray::ALL`], each beginning at a multiple of 16 bytes. All numbers in elements.
#[derive(Clone, Copy)]
pub(super) struct StateLayout {
    starts: [u64; PlanArray::ALL.len()],
    pub(super) elements: u64,
}

/// What an array begins at a multiple of, in bytes.
const ALIGNED: u64 = 16;

impl StateLayout {
    /// Of a plan whose number of blocks may not be known yet.
    pub(super) fn of(positions: u64, rows: u64, block: u32) -> StateLayout {
        let mut end = 0_u64;
        let starts = PlanArray::ALL.map(|array| {
            let start = end.next_multiple_of(ALIGNED / ElementType::U32.bytes());
            end = start
                + match array {
                    PlanArray::Rows | PlanArray::Order => positions,
                    PlanArray::SegmentStart | PlanArray::BlockStart | PlanArray::PartialStart => rows + 1,
                    PlanArray::BlockRow => positions / u64::from(block) + rows,
                };
            start
        });
        StateLayout { starts, elements: end }
    }

    /// Where an array begins.
    pub(super) fn start(&self, array: PlanArray) -> u64 {
        self.starts[array.place()]
    }

    /// The addresses of the arrays of a state.
    pub(super) fn addresses(&self, state: u64) -> [u64; PlanArray::ALL.len()] {
        self.starts.map(|start| state + start * ElementType::U32.bytes())
    }
}

/// Whether a state can begin at an address.
pub(super) fn check_address(address: u64) -> Result<(), Error> {
    if address == 0 {
        return Err(Error::Address { address, ty: ElementType::U32 });
    }
    if !address.is_multiple_of(ALIGNED) {
        return Err(Error::Misaligned { argument: "the state of the plan".to_owned(), address, of: ALIGNED });
    }
    Ok(())
}

/// Whether there are plans of so many positions and rows.
pub(super) fn check_limits(positions: u64, rows: u64, block: u32) -> Result<(), Error> {
    let argument = || "the plan".to_owned();
    for (axis, size) in [("positions", positions), ("rows", rows), ("positions a block", block.into())] {
        if size == 0 {
            return Err(Error::Zero { argument: argument(), axis });
        }
    }
    if positions > MAX_POSITIONS {
        return Err(Error::TooManyPositions { argument: argument(), positions, limit: MAX_POSITIONS });
    }
    if rows > MAX_ROWS {
        return Err(Error::TooManyRows { rows, limit: MAX_ROWS });
    }
    check_blocks(positions, rows, block)
}

fn between(what: &'static str, found: u64, least: u64, most: u64) -> Result<(), Error> {
    if (least..=most).contains(&found) { Ok(()) } else { Err(Error::PlanSizes { what, found, least, most }) }
}
