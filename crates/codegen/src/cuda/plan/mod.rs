//! The sources that make plans: validated rows, their stable order, segments and
//! blocks.
//!
//! The order comes from a least-significant-digit radix sort: stable,
//! deterministic, without atomics on the order, and with memory proportional to
//! positions plus rows for every number of rows. A position without a row sorts
//! behind all rows. Few rows are one digit, and then three launches are all: a
//! tile of positions is checked and counted, one block makes places of the
//! counts and divides the rows into blocks, a tile is moved to its places. More
//! rows are digits of 6 bits, two launches for each further digit and the
//! segments found by search.

mod blocks;
mod repeat;
mod rows;
mod sort;

pub use repeat::{PlanRepeat, repeat};

use serde::{Deserialize, Serialize};

use super::{Count, Entry, Param, PlanArray, Scratch, Source, Step, Writer, header, names};
use crate::dtype::IntType;
use crate::ir::{InputId, RowId};
use crate::schedule::{PlanSchedule, ScheduleFault};

/// What a plan's rows are made of, with every size a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanShape {
    /// The indices, in declaration order.
    pub terms: Vec<Term>,
    /// Added to the terms.
    pub offset: u64,
    /// Exclusive bound of the combined row, at most [`crate::spec::MAX_ROWS`].
    pub rows: u64,
    /// Positions of a block, at least 1.
    pub block: u32,
}

/// One index of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Element type.
    pub ty: IntType,
    /// What it is multiplied by, at least 1.
    pub factor: u64,
    /// Exclusive bound, at least 1.
    pub bound: u64,
    /// The one value outside the bound that means "no row".
    pub pad: Option<i64>,
}

/// Numbers in the part that [`Source::error`] of a plan names, after the error word:
/// blocks, partial sums, positions that have a row.
pub const PLAN_TOTALS: usize = 3;

/// Threads of a block of every entry.
const THREADS: u32 = 256;
/// Positions that a thread sorts, and their tile.
const ITEMS: u32 = 8;
const TILE: u64 = (THREADS * ITEMS) as u64;
/// Bits of a digit where keys have several. A tile's places of 64 digits are 32 KiB of
/// shared memory; the next power is more than every architecture gives without asking.
const DIGIT_BITS: u32 = 6;

/// Scratch parts in the order of [`Source::scratch`]. A plan that repeats another has the first alone.
const TOTALS: usize = 0;
const ERRORS: usize = 1;
const COUNTS: usize = 2;
const OTHER_ORDER: usize = 3;

pub(super) fn array_name(array: PlanArray) -> &'static str {
    match array {
        PlanArray::Rows => "rows",
        PlanArray::Order => "order",
        PlanArray::SegmentStart => "segment_start",
        PlanArray::BlockStart => "block_start",
        PlanArray::PartialStart => "partial_start",
        PlanArray::BlockRow => "block_row",
    }
}

/// The source of a plan. Inputs are the terms' indices by number; the arrays are
/// written through [`Param::Plan`] of row expression 0.
///
/// # Errors
/// [`ScheduleFault`] when the schedule is not legal.
pub fn plan(shape: &PlanShape, schedule: &PlanSchedule) -> Result<Source, ScheduleFault> {
    schedule.check(shape)?;
    let padded = shape.terms.iter().any(|term| term.pad.is_some());
    // Keys are rows, and one more for positions without a row.
    let keys = shape.rows + u64::from(padded);
    let one_digit = keys <= 1 << DIGIT_BITS;
    let passes = if one_digit { 1 } else { (u64::BITS - (keys - 1).leading_zeros()).div_ceil(DIGIT_BITS) };
    let digits = if one_digit { keys } else { 1 << DIGIT_BITS };
    let mut scratch = vec![
        totals(),
        Scratch { name: "errors", elements: Count::Positions { per: TILE, each: 1 }, element_bytes: 8 },
        Scratch { name: "counts", elements: Count::Positions { per: TILE, each: digits }, element_bytes: 4 },
    ];
    if passes > 1 {
        scratch.push(Scratch { name: "other_order", elements: Count::Positions { per: 1, each: 1 }, element_bytes: 4 });
    }
    let terms = shape.terms.iter().map(|term| term.ty).collect();
    let mut plan = Plan { rows: shape.rows, block: shape.block, terms, ..Plan::default() };
    let sort = sort::Sort { digits, passes, padded };
    blocks::scan(&mut plan.writer);
    sort.helpers(&mut plan);
    blocks::helpers(&mut plan);
    rows::rows(&mut plan, shape, &sort);
    for pass in 0..passes {
        if pass > 0 {
            sort.count(&mut plan, pass);
        }
        sort.offsets(&mut plan);
        sort.scatter(&mut plan, pass);
    }
    if passes > 1 {
        blocks::segments(&mut plan);
        blocks::blocks(&mut plan, true);
        blocks::block_rows(&mut plan);
    }
    Ok(plan.source(describe(shape), scratch))
}

/// The error word and the totals.
fn totals() -> Scratch {
    Scratch { name: "totals", elements: Count::Fixed(1 + PLAN_TOTALS as u64), element_bytes: 8 }
}

/// A source being written.
#[derive(Default)]
struct Plan {
    rows: u64,
    block: u32,
    /// Types of the indices.
    terms: Vec<IntType>,
    steps: Vec<Step>,
    entries: Vec<(String, String)>,
    writer: Writer,
}

impl Plan {
    /// Writes an entry, unless one of this name stands already, and its launch.
    fn entry(&mut self, name: &str, what: &str, grid: Count, params: &[Param], inside: impl FnOnce(&mut Writer)) {
        if !self.entries.iter().any(|(other, _)| other == name) {
            let declared: Vec<String> = params.iter().map(|&param| self.declare(param)).collect();
            self.writer.entry(THREADS, name, &declared, inside);
            self.entries.push((name.to_owned(), what.to_owned()));
        }
        self.steps.push(Step::Launch(Entry { name: name.to_owned(), threads: THREADS, grid, params: params.to_vec() }));
    }

    fn declare(&self, param: Param) -> String {
        match param {
            Param::Input { input, .. } => {
                format!("const {}* index{}", names::int(self.terms[input.index()]), input.0)
            }
            Param::InputStride { input, .. } => format!("rl_u64 index{}_stride", input.0),
            Param::Positions => "rl_u64 positions".to_owned(),
            Param::PlanPositions(_) => "rl_u64 sequence".to_owned(),
            Param::Plan { row: RowId(0), array } => format!("rl_u32* {}", array_name(array)),
            Param::Plan { array, .. } => format!("const rl_u32* one_{}", array_name(array)),
            Param::Scratch(TOTALS) => "rl_u64* totals".to_owned(),
            Param::Scratch(ERRORS) => "rl_u64* errors".to_owned(),
            Param::Scratch(COUNTS) => "rl_u32* counts".to_owned(),
            Param::Scratch(_) => "rl_u32* other_order".to_owned(),
            Param::Output { .. } | Param::OutputStride { .. } | Param::Blocks(_) => {
                unreachable!("a plan has no output and no plan")
            }
        }
    }

    fn source(self, lines: Vec<String>, scratch: Vec<Scratch>) -> Source {
        Source {
            name: "plan".to_owned(),
            header: header::comment(lines, &self.entries),
            body: self.writer.text.trim_start().to_owned(),
            steps: self.steps,
            scratch,
            error: Some(TOTALS),
        }
    }
}

/// An array of the plan that is being made.
fn array(array: PlanArray) -> Param {
    Param::Plan { row: RowId(0), array }
}

fn input(term: usize) -> InputId {
    InputId(term as u32)
}

/// A block of threads for each tile of positions.
fn tiles() -> Count {
    Count::Positions { per: TILE, each: 1 }
}

/// Threads for each of so many.
fn threads_for(number: u64) -> Count {
    Count::Fixed(number.div_ceil(u64::from(THREADS)))
}

/// `for` over all threads of the grid, one `name` below `limit` each.
fn each(writer: &mut Writer, name: &str, limit: &str, inside: impl FnOnce(&mut Writer)) {
    let threads = THREADS;
    let head = format!(
        "for (rl_u64 {name} = rl_block() * {threads} + rl_thread(); {name} < {limit}; {name} += rl_blocks() * {threads})"
    );
    writer.block(head, inside);
}

fn describe(shape: &PlanShape) -> Vec<String> {
    let mut row: Vec<String> = shape
        .terms
        .iter()
        .enumerate()
        .map(|(at, term)| if term.factor == 1 { format!("index{at}") } else { format!("index{at} * {}", term.factor) })
        .collect();
    if shape.offset != 0 {
        row.push(shape.offset.to_string());
    }
    let terms = shape.terms.iter().enumerate().map(|(at, term)| {
        let pad = term.pad.map_or(String::new(), |pad| format!(" or {pad}: no row"));
        format!("index{at}     {} in 0..{}{pad}", term.ty, term.bound)
    });
    let head = vec!["plan of the rows of positions".to_owned(), String::new()];
    let row = format!("row        {} in 0..{}", row.join(" + "), shape.rows);
    let blocks = format!("blocks     {} positions of one row", shape.block);
    head.into_iter().chain([row]).chain(terms).chain([blocks]).collect()
}
