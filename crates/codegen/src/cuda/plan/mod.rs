//! The source that builds a plan: validated rows, their stable order, segments
//! and blocks.
//!
//! The order comes from a least-significant-digit radix sort with 4-bit digits:
//! stable, deterministic, without atomics on the order, and with memory
//! proportional to positions plus rows for every number of rows. A position
//! without a row sorts behind all rows.

mod body;

use super::{Count, Entry, Param, PlanArray, Scratch, Source, Step, Writer, header, names};
use crate::dtype::IntType;
use crate::ir::{InputId, RowId};

/// What a plan's rows are made of, with every size a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Threads of a block of every entry.
const THREADS: u32 = 256;
/// Positions that a thread sorts, and their tile.
const ITEMS: u32 = 8;
const TILE: u64 = (THREADS * ITEMS) as u64;
const DIGIT_BITS: u32 = 4;
const DIGITS: u64 = 1 << DIGIT_BITS;

/// Scratch parts in the order of [`Source::scratch`].
const ERROR: usize = 0;
const COUNTS: usize = 1;
const OTHER_ORDER: usize = 2;

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
pub fn plan(shape: &PlanShape) -> Source {
    let padded = shape.terms.iter().any(|term| term.pad.is_some());
    // Keys are rows, and one more for positions without a row.
    let most_key = shape.rows - 1 + u64::from(padded);
    let passes = (u64::BITS - most_key.leading_zeros()).div_ceil(DIGIT_BITS).max(1);
    let mut scratch = vec![
        Scratch { name: "error", elements: Count::Fixed(1), element_bytes: 8 },
        Scratch { name: "counts", elements: Count::Positions { per: TILE, each: DIGITS }, element_bytes: 4 },
    ];
    if passes > 1 {
        scratch.push(Scratch { name: "other_order", elements: Count::Positions { per: 1, each: 1 }, element_bytes: 4 });
    }
    let mut plan = Plan { shape, steps: vec![], entries: vec![], writer: Writer::default() };
    plan.steps.push(Step::Fill { scratch: ERROR, byte: 0xFF });
    body::helpers(&mut plan);
    body::rows(&mut plan);
    for pass in 0..passes {
        body::sort_pass(&mut plan, pass, passes);
    }
    body::segments(&mut plan);
    body::blocks(&mut plan);
    body::block_rows(&mut plan);
    let body = plan.writer.text.trim_start().to_owned();
    Source {
        name: "plan".to_owned(),
        header: header::comment(describe(shape), &plan.entries),
        body,
        steps: plan.steps,
        scratch,
        error: Some(ERROR),
    }
}

struct Plan<'a> {
    shape: &'a PlanShape,
    steps: Vec<Step>,
    entries: Vec<(String, String)>,
    writer: Writer,
}

impl Plan<'_> {
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
                format!("const {}* index{}", names::int(self.shape.terms[input.index()].ty), input.0)
            }
            Param::InputStride { input, .. } => format!("rl_u64 index{}_stride", input.0),
            Param::Positions => "rl_u64 positions".to_owned(),
            Param::Plan { array, .. } => format!("rl_u32* {}", array_name(array)),
            Param::Scratch(ERROR) => "rl_u64* error".to_owned(),
            Param::Scratch(COUNTS) => "rl_u32* counts".to_owned(),
            Param::Scratch(_) => "rl_u32* other_order".to_owned(),
            Param::Output { .. } | Param::OutputStride { .. } | Param::Blocks(_) => {
                unreachable!("a plan has no output and no plan")
            }
        }
    }
}

/// An array of the plan that is being built.
fn array(array: PlanArray) -> Param {
    Param::Plan { row: RowId(0), array }
}

fn input(term: usize) -> InputId {
    InputId(term as u32)
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
