//! The sources that make plans: validated rows, their stable order, segments and
//! blocks.
//!
//! The order comes from a least-significant-digit radix sort: stable,
//! deterministic, without atomics on the order, and with memory proportional to
//! positions plus rows for every number of rows. A position without a row sorts
//! behind all rows. Few rows are one digit; more are several, and their segments
//! are found by search.
//!
//! Which launches do it is the kind of [`PlanSchedule`], a file each here. What
//! an entry reads of an earlier one it reads after its own beginning only.

mod blocks;
mod digits;
mod few_rows;
mod one_block;
mod ranks;
mod repeat;
mod rows;
mod sort;
mod spans;
mod tiles;

pub(crate) use digits::Digits;
pub use repeat::{PlanRepeat, repeat};
use sort::Sort;

use serde::{Deserialize, Serialize};

use super::{Count, Entry, Param, PlanArray, Scratch, Source, Step, Writer, header, names};
use crate::dtype::IntType;
use crate::ir::{InputId, RowId};
use crate::schedule::{PlanKind, PlanSchedule, ScheduleFault};

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
    let PlanSchedule { kind, threads, items } = *schedule;
    let sort = Sort { digits: Digits::of(shape, threads), threads, items };
    let terms = shape.terms.iter().map(|term| term.ty).collect();
    let mut plan = Plan { rows: shape.rows, block: shape.block, threads, terms, ..Plan::default() };
    ranks::scan(&mut plan.writer, threads);
    let mut scratch = match kind {
        PlanKind::Tiles => tiles::write(&mut plan, shape, &sort),
        PlanKind::Spans => spans::write(&mut plan, shape, &sort),
        PlanKind::OneBlock => one_block::write(&mut plan, shape, &sort),
    };
    if sort.digits.passes > 1 {
        scratch.push(Scratch { name: "other_order", elements: Count::Positions { per: 1, each: 1 }, element_bytes: 4 });
    }
    Ok(plan.source(describe(shape, schedule), scratch))
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
    /// Threads of a block of every entry.
    threads: u32,
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
            // One block a multiprocessor: asked for more, the compiler spills in some specialisations.
            self.writer.early_entry(format!("{}, 1", self.threads), name, &declared, inside);
            self.entries.push((name.to_owned(), what.to_owned()));
        }
        let (name, threads) = (name.to_owned(), self.threads);
        self.steps.push(Step::Launch(Entry {
            name,
            threads,
            grid,
            early: true,
            resident: None,
            params: params.to_vec(),
        }));
    }

    /// Blocks with a thread for each of so many.
    fn threads_for(&self, number: u64) -> Count {
        Count::Fixed(number.div_ceil(u64::from(self.threads)))
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

fn describe(shape: &PlanShape, schedule: &PlanSchedule) -> Vec<String> {
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
    let schedule = format!("schedule   {schedule}");
    head.into_iter().chain([row]).chain(terms).chain([blocks, schedule]).collect()
}
