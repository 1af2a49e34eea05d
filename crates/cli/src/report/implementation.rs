//! What can be measured: an implementation of both directions of one kernel.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::Direction;
use rowloom_runtime::{AnyView, AnyViewMut};

use crate::error::{Error, Result};

use super::case::Case;
use super::clock::Clock;
use super::latency::Latency;

/// An implementation of both directions of one kernel, on the device that a report measures.
pub trait Implementation {
    /// Its key in the report.
    fn name(&self) -> &'static str;

    /// What it is, in words.
    fn source(&self) -> String;

    /// What it implements.
    fn kernel(&self, direction: Direction) -> &Verified;

    /// One call from its inputs alone, under the default schedule or one of
    /// [`Implementation::schedules`]; a number beyond them is an error, never the default.
    fn run<'t>(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'t>>],
        outputs: &mut [Vec<AnyViewMut<'t>>],
        schedule: Option<usize>,
    ) -> Result<()>;

    /// How many schedules there are for such a call.
    fn schedules(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &[Vec<AnyView<'_>>],
    ) -> Result<usize>;

    /// Times of both directions at `positions` positions.
    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency>;
}

/// A call under a schedule that there is not: the default compared with itself would say nothing.
pub fn no_schedule(name: &str, kernel: &Verified, number: usize, count: usize) -> Error {
    let kernel = &kernel.name;
    Error::failed(format!("{name}: {kernel} has {count} schedules for this call, so none has the number {number}"))
}
