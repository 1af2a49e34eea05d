//! Schedules as plain data. A schedule is speed: it never changes a byte.
//!
//! A kernel may have outputs with a row per position, sums over positions, or
//! both; a [`Schedule`] has one part for each. The fields of both parts are the
//! keys of `tile(…)`.

mod choice;
mod fault;
mod plan;
mod positions;
mod segments;
mod tile;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use fault::ScheduleFault;
pub use plan::{PlanKind, PlanSchedule};
pub use positions::{PositionsKind, PositionsSchedule};
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

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions = self.positions.map(|part| format!("positions({part})"));
        let segments = self.segments.map(|part| format!("segments({part})"));
        let parts: Vec<String> = positions.into_iter().chain(segments).collect();
        f.write_str(&parts.join(", "))
    }
}
