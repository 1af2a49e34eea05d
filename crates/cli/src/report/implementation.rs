//! What can be measured: an implementation of both directions of one kernel.

use rowloom_codegen::ir::Direction;

use crate::error::Result;

use super::host::Outputs;
use super::inputs::{Batch, Case};
use super::latency::{Clock, Latency};

/// An implementation of both directions of one kernel.
pub trait Implementation {
    /// Its key in the report.
    fn name(&self) -> &'static str;

    /// What it is, in words.
    fn source(&self) -> String;

    /// A call with its inputs in place.
    fn load<'a>(&'a self, direction: Direction, batch: &'a Batch) -> Result<Box<dyn Loaded + 'a>>;

    /// Times of both directions at `positions` positions.
    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency>;

    /// The outputs of one call.
    fn evaluate(&self, direction: Direction, batch: &Batch) -> Result<Outputs> {
        self.load(direction, batch)?.run(None)
    }
}

/// A call with its inputs in place, which can be made again and again.
pub trait Loaded {
    /// Runs it from its inputs alone, under the default schedule or one of [`Loaded::schedules`].
    fn run(&mut self, schedule: Option<usize>) -> Result<Outputs>;

    /// How many schedules there are beside the default one.
    fn schedules(&self) -> usize;
}
