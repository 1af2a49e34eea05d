//! How a plan is built.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use super::fault::field;
use crate::cuda::{Digits, PlanShape};
use crate::dtype::IntType;

/// How a plan is built. Like every schedule it changes no byte of the plan.
///
/// Threads decide the digits that positions are sorted by: each value of a digit takes 2 bytes
/// of shared memory a thread, so 128 threads sort by 7 bits at a time, 1024 by 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSchedule {
    /// What a launch does.
    pub kind: PlanKind,
    /// Threads of a block: a power of two from 64 to 1024.
    ///
    /// Good: many where rows are few and one block should sort much; few where rows are many,
    /// for they leave room for longer digits and so for fewer launches.
    /// Cost: barriers grow with threads.
    pub threads: u32,
    /// Positions of a thread: a power of two up to 16. With threads, those of a tile.
    ///
    /// Legal while the indices of all of them fit registers. Good: few where positions are few,
    /// so that more blocks share them. Cost: a thread takes its positions one after the other.
    pub items: u32,
}

/// What the launches that build a plan do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// A block of threads for each tile of positions, one launch each: counted, divided by one
    /// block, moved.
    ///
    /// Legal always. Good for very many positions. Cost: three launches where rows are one
    /// digit; three for each further digit, and three for segments and blocks.
    Tiles,
    /// A block of threads for each span of tiles, as many as some hundred: counted, then moved by
    /// blocks that each sum the counts of all spans for themselves.
    ///
    /// Legal always. Good for most numbers of positions: two launches where rows are one digit, two
    /// for each further digit, and three for segments and blocks. Cost: every block reads all counts.
    Spans,
    /// One block of threads for all, tile after tile.
    ///
    /// Legal when rows are one digit. Good for few positions: one launch, and nothing goes through
    /// memory where they are one tile. Cost: one multiprocessor works.
    OneBlock,
}

impl PlanKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PlanKind::Tiles => "tiles",
            PlanKind::Spans => "spans",
            PlanKind::OneBlock => "one_block",
        }
    }
}

impl fmt::Display for PlanSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kind = {}, threads = {}, items = {}", self.kind.name(), self.threads, self.items)
    }
}

/// Registers that a thread needs beside its positions.
const OTHER_REGISTERS: u32 = 24;

/// Legal for every shape.
const LAST: PlanSchedule = PlanSchedule { kind: PlanKind::Tiles, threads: 256, items: 1 };

/// Threads and items of the candidates, what was measured fastest first: on an H200 with R = 9 spans
/// take 10 µs at S = 4097 and 32768 and 11 at 131072, tiles and one block of threads 14 to 15.
const TILES: [(u32, u32); 4] = [(256, 8), (256, 4), (128, 8), (512, 4)];
const SPANS: [(u32, u32); 7] = [(256, 4), (256, 2), (128, 4), (128, 8), (256, 8), (512, 2), (512, 4)];
/// The same where rows are several digits: with R = 4096 and S = 131072 59 µs, of tiles 62.
const SPANS_OF_DIGITS: [(u32, u32); 7] = [(512, 4), (512, 2), (128, 8), (256, 8), (256, 4), (128, 4), (256, 2)];
const ONE_BLOCK: [(u32, u32); 5] = [(1024, 8), (1024, 4), (1024, 2), (512, 8), (512, 16)];

impl PlanSchedule {
    /// Whether this schedule may build the plan.
    ///
    /// # Errors
    /// The first field with a value that it may not have.
    pub fn check(&self, shape: &PlanShape) -> Result<(), ScheduleFault> {
        let PlanSchedule { kind, threads, items } = *self;
        if !threads.is_power_of_two() || !(64..=1024).contains(&threads) {
            return Err(field("threads", threads, "it is no power of two from 64 to 1024"));
        }
        if !items.is_power_of_two() || items > 16 {
            return Err(field("items", items, "it is no power of two up to 16"));
        }
        // One item is as little as there can be.
        if items > 1 && items.saturating_mul(words(shape)) > registers(threads) {
            return Err(field("items", items, "the indices of so many positions do not fit a thread's registers"));
        }
        let one_digit = || Digits::of(shape, threads).passes == 1;
        match kind {
            PlanKind::OneBlock if !one_digit() => {
                Err(field("kind", kind.name(), "rows are more than one digit of so many threads"))
            }
            PlanKind::Tiles | PlanKind::Spans | PlanKind::OneBlock => Ok(()),
        }
    }

    /// What builds a plan when nothing was tuned: the first legal schedule of the space.
    pub fn default_for(shape: &PlanShape) -> PlanSchedule {
        let space = PlanSchedule::space(shape);
        let legal = space.into_iter().find(|schedule| schedule.check(shape).is_ok());
        legal.unwrap_or(LAST)
    }

    /// Every candidate, in a fixed order, legal or not.
    pub fn space(shape: &PlanShape) -> Vec<PlanSchedule> {
        let of = |kind| move |&(threads, items): &(u32, u32)| PlanSchedule { kind, threads, items };
        let tiles = TILES.iter().map(of(PlanKind::Tiles));
        let spans = if Digits::of(shape, 256).passes == 1 { SPANS } else { SPANS_OF_DIGITS };
        let spans = spans.iter().map(of(PlanKind::Spans));
        let one_block = ONE_BLOCK.iter().map(of(PlanKind::OneBlock));
        spans.chain(tiles).chain(one_block).chain([LAST]).collect()
    }
}

/// Registers of one position: its indices and its digit.
fn words(shape: &PlanShape) -> u32 {
    let term = |ty| match ty {
        IntType::I64 => 2,
        IntType::I32 | IntType::U8 => 1,
    };
    shape.terms.iter().map(|one| term(one.ty)).sum::<u32>() + 1
}

/// Registers that a thread of such a block has for its positions.
fn registers(threads: u32) -> u32 {
    (65536 / threads).min(255) - OTHER_REGISTERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Term;

    fn shape(rows: u64, ty: IntType, terms: usize, pad: Option<i64>) -> PlanShape {
        let mut all = vec![Term { ty, factor: 1, bound: rows, pad }];
        all.resize(terms, Term { ty, factor: 1, bound: 1, pad: None });
        PlanShape { terms: all, offset: 0, rows, block: 256 }
    }

    #[track_caller]
    fn refused(schedule: PlanSchedule, shape: &PlanShape, field: &str) {
        match schedule.check(shape) {
            Err(ScheduleFault::Field { field: found, .. }) => assert_eq!(found, field, "{schedule}"),
            other => panic!("{schedule}: {other:?}"),
        }
    }

    #[test]
    fn threads_and_items_are_powers_of_two() {
        let nine = shape(9, IntType::I64, 2, None);
        for kind in [PlanKind::Tiles, PlanKind::Spans, PlanKind::OneBlock] {
            for threads in [0, 1, 32, 96, 2048] {
                refused(PlanSchedule { kind, threads, items: 1 }, &nine, "threads");
            }
            for items in [0, 3, 32] {
                refused(PlanSchedule { kind, threads: 256, items }, &nine, "items");
            }
            for threads in [64, 128, 256, 512, 1024] {
                PlanSchedule { kind, threads, items: 4 }.check(&nine).unwrap();
            }
        }
    }

    #[test]
    fn items_fit_registers() {
        let schedule = |threads, items| PlanSchedule { kind: PlanKind::Spans, threads, items };
        // 64 registers, 24 of them for other things: 8 times two indices of two words and a digit.
        schedule(1024, 8).check(&shape(9, IntType::I64, 2, None)).unwrap();
        refused(schedule(1024, 8), &shape(9, IntType::I64, 3, None), "items");
        refused(schedule(1024, 16), &shape(9, IntType::I64, 2, None), "items");
        schedule(1024, 8).check(&shape(9, IntType::I32, 4, None)).unwrap();
        // What nothing fits runs one by one.
        let wide = shape(9, IntType::I64, 200, None);
        refused(schedule(64, 2), &wide, "items");
        assert_eq!(PlanSchedule::default_for(&wide), LAST);
    }

    #[test]
    fn one_block_sorts_by_one_digit() {
        let schedule = |threads| PlanSchedule { kind: PlanKind::OneBlock, threads, items: 1 };
        // Shared memory has places of 18 values for each of 1024 threads; a pad is one of them.
        for (threads, most) in [(1024, 18), (512, 36), (256, 72), (128, 128), (64, 64)] {
            schedule(threads).check(&shape(most, IntType::I64, 1, None)).unwrap();
            schedule(threads).check(&shape(most - 1, IntType::I64, 1, Some(-1))).unwrap();
            refused(schedule(threads), &shape(most, IntType::I64, 1, Some(-1)), "kind");
            refused(schedule(threads), &shape(most + 1, IntType::I64, 1, None), "kind");
        }
    }

    #[test]
    fn there_are_candidates_for_every_shape() {
        for rows in [1, 9, 65, 4098, 150_000, crate::spec::MAX_ROWS] {
            let shape = shape(rows, IntType::I64, 2, None);
            let space = PlanSchedule::space(&shape);
            let legal = space.iter().filter(|schedule| schedule.check(&shape).is_ok()).count();
            assert!(legal >= 8, "{legal} for {rows} rows");
            let mut seen = std::collections::HashSet::new();
            assert!(space.iter().all(|schedule| seen.insert(*schedule)));
        }
    }

    #[test]
    fn it_reads_as_it_prints() {
        let schedule = PlanSchedule { kind: PlanKind::OneBlock, threads: 1024, items: 8 };
        assert_eq!(schedule.to_string(), "kind = one_block, threads = 1024, items = 8");
    }
}
