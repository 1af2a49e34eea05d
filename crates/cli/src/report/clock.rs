//! How times are taken, in microseconds.
//!
//! On a GPU events around the queued work are read; on a CPU the clock is.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rowloom_runtime::baseline::{Baseline, elapsed_us, median};
use rowloom_runtime::{Device, Event, Stream};

use crate::error::{Error, Result};

/// How often things are timed, and who is told.
pub struct Clock<'p> {
    /// Runs before the first timed one.
    pub warm_up: usize,
    /// Timed runs.
    pub timed_runs: usize,
    /// How long one measured call may take on a CPU, all its runs together.
    pub budget: Duration,
    /// The fewest runs that the budget has left of `timed_runs`.
    pub fewest: Cell<usize>,
    /// Seed of the layout and the table.
    pub seed: u64,
    /// Told of every measured call.
    pub progress: &'p ProgressBar,
    /// Of the stream that is timed.
    pub baseline: &'p Baseline,
}

/// Time of a planned call.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// On the device.
    pub us: f64,
    /// Of the host, to queue it. `None` where a call returns when its work is done.
    pub host_us: Option<f64>,
}

/// Runs that are timed however long they take.
const FEWEST_RUNS: usize = 10;

/// Time of one measured call on a CPU.
pub const CPU_BUDGET: Duration = Duration::from_secs(10);

impl Clock<'_> {
    fn stream(&self) -> &Stream {
        self.baseline.stream()
    }

    /// Median of the times of calls that may wait for the device themselves.
    pub fn calls(&self, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
        let runs = self.runs(&mut work)?;
        let mut marks = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = self.record()?;
            work()?;
            marks.push((start, self.record()?));
        }
        let times = elapsed_us(&marks)?;
        self.progress.inc(1);
        middle(&times)
    }

    /// Warms up, and says how many runs to time: fewer than all where a CPU would take too long.
    fn runs(&self, work: &mut impl FnMut() -> Result<()>) -> Result<usize> {
        let start = Instant::now();
        let on_cpu = !is_gpu(&self.stream().device());
        let mut warmed = 0;
        while warmed < self.warm_up && !(on_cpu && warmed > 1 && start.elapsed() > self.budget / 6) {
            work()?;
            warmed += 1;
        }
        let mut runs = self.timed_runs;
        if on_cpu && warmed < self.warm_up {
            let each = start.elapsed() / warmed as u32;
            let affordable = self.budget.as_nanos() / each.as_nanos().max(1);
            runs = runs.min((affordable as usize).max(FEWEST_RUNS));
            self.fewest.set(self.fewest.get().min(runs));
        }
        Ok(runs)
    }

    /// Median of the times of calls that only queue work and allocate nothing.
    pub fn queued(&self, mut work: impl FnMut() -> Result<()>) -> Result<Queued> {
        if !is_gpu(&self.stream().device()) {
            return Ok(Queued { us: self.calls(work)?, host_us: None });
        }
        let queued = self.baseline.queue(self.warm_up, self.timed_runs, &mut work)?;
        self.progress.inc(1);
        Ok(Queued { us: middle(&queued.us)?, host_us: Some(middle(&queued.host_us)?) })
    }

    fn record(&self) -> Result<Event> {
        Ok(self.stream().record()?)
    }
}

/// Whether this is a real GPU, not one that a CPU acts out.
pub fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
}

fn middle(times: &[f64]) -> Result<f64> {
    median(times).ok_or_else(|| Error::failed("nothing was timed"))
}
