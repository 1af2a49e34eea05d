//! How a plan is built.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use super::choice::field;
use crate::cuda::PlanShape;
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
}

impl PlanKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PlanKind::Tiles => "tiles",
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

/// Threads and items of the candidates, what was measured fastest first.
const TILES: [(u32, u32); 4] = [(256, 8), (256, 4), (128, 8), (512, 4)];

impl PlanSchedule {
    /// Whether this schedule may build the plan.
    ///
    /// # Errors
    /// The first field with a value that it may not have.
    pub fn check(&self, shape: &PlanShape) -> Result<(), ScheduleFault> {
        let PlanSchedule { kind: _, threads, items } = *self;
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
        Ok(())
    }

    /// What builds a plan when nothing was tuned: the first legal schedule of the space.
    pub fn default_for(shape: &PlanShape) -> PlanSchedule {
        let space = PlanSchedule::space(shape);
        let legal = space.into_iter().find(|schedule| schedule.check(shape).is_ok());
        legal.unwrap_or(LAST)
    }

    /// Every candidate, in a fixed order, legal or not.
    pub fn space(_shape: &PlanShape) -> Vec<PlanSchedule> {
        let of = |kind| move |&(threads, items): &(u32, u32)| PlanSchedule { kind, threads, items };
        TILES.iter().map(of(PlanKind::Tiles)).chain([LAST]).collect()
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
