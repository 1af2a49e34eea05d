//! Schedules as plain data. A schedule is speed: it never changes a byte.

use serde::{Deserialize, Serialize};

/// How one kernel runs: one part per kind of output it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schedule {
    /// For outputs with a row per position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<PositionsSchedule>,
    /// For sums over positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentsSchedule>,
}

/// How outputs with a row per position are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// A block is a position: all its outputs.
    Position,
    /// A block is one output tensor at one position.
    Output,
}

/// How sums over positions are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentsSchedule {
    /// What a block does and who folds.
    pub kind: SegmentsKind,
    /// Threads of a block: a multiple of 32 up to 1024.
    pub threads: u32,
    /// Columns of a thread: a power of two up to 16.
    pub columns: u32,
    /// Loads in flight per thread.
    pub unroll: u32,
}

/// What a block computes of sums over positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentsKind {
    /// One block of positions × one tile of columns; the last to arrive folds.
    Blocks,
    /// The same; a second entry folds.
    TwoPass,
    /// One row × one tile of columns, block of positions after block.
    Rows,
}

/// A declared narrowing: for each named field of the schedule, the values allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Field name and its allowed values as words, in declaration order.
    pub fields: Vec<(String, Vec<String>)>,
}

/// Why a tile means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileFault {
    /// Which field, by its place in [`Tile::fields`].
    pub field: usize,
    /// Which of its values; `None` for the field itself.
    pub value: Option<usize>,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Tile {
    /// Whether every field exists and has a value that some schedule may take.
    pub fn check(&self) -> Result<(), Vec<TileFault>> {
        todo!()
    }
}
