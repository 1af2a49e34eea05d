//! Schedules as plain data. A schedule is speed: it never changes a byte.
//!
//! A kernel may have outputs with a row per position, sums over positions, or
//! both; a [`Schedule`] has one part for each. The fields of both parts are the
//! keys of `tile(…)`.

mod choice;
mod plan;
mod segments;
mod tile;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use choice::ScheduleFault;
pub use plan::{PlanKind, PlanSchedule};
pub use segments::{SegmentsKind, SegmentsSchedule};
pub use tile::{Tile, TileFault};

/// How one kernel runs: one part per kind of output it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// For outputs with a row per position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<PositionsSchedule>,
    /// For sums over positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentsSchedule>,
}

/// How outputs with a row per position are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionsSchedule {
    /// What a block does.
    pub kind: PositionsKind,
    /// Threads of a block: a multiple of 32 up to 1024.
    pub threads: u32,
    /// Whether stores are marked as not to be read again soon.
    pub streaming: bool,
}

/// What a block computes of outputs with a row per position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PositionsKind {
    /// All outputs of one position.
    ///
    /// Legal always. Good when outputs share inputs with a row per position:
    /// each is read once, and so are indices. Cost: registers grow with the
    /// number of outputs, and a table of many chunks does not fit the
    /// first-level cache.
    Position,
    /// One output tensor at one position, all positions of one tensor before
    /// the next.
    ///
    /// Legal always. Good for several outputs that are copies: blocks that run
    /// together write one stretch of memory and read one chunk of the table,
    /// which stays in the first-level cache. Cost: what outputs share, indices
    /// too, is read and checked once per output.
    Output,
}

impl PositionsSchedule {
    pub(crate) const KEYS: [&'static str; 3] = ["kind", "threads", "streaming"];
}

impl PositionsKind {
    /// Every kind.
    pub const ALL: [PositionsKind; 2] = [PositionsKind::Position, PositionsKind::Output];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PositionsKind::Position => "position",
            PositionsKind::Output => "output",
        }
    }
}

impl fmt::Display for PositionsSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kind = {}, threads = {}, streaming = {}", self.kind.name(), self.threads, self.streaming)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions = self.positions.map(|part| format!("positions({part})"));
        let segments = self.segments.map(|part| format!("segments({part})"));
        let parts: Vec<String> = positions.into_iter().chain(segments).collect();
        f.write_str(&parts.join(", "))
    }
}
