//! How times are taken, in microseconds.
//!
//! On a GPU events around the queued work are read; on a CPU the clock is.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rowloom_runtime::baseline::Baseline;
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

/// Longest that a GPU is kept waiting, so that the host can queue ahead.
const LONGEST_DELAY: Duration = Duration::from_millis(200);

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
        let times = elapsed(&marks)?;
        self.progress.inc(1);
        median(times)
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
        let queued = self.queue(self.warm_up, self.timed_runs, &mut work)?;
        self.progress.inc(1);
        Ok(queued)
    }

    /// The same on a GPU, with other counts. The device starts when all is queued, or after
    /// [`LONGEST_DELAY`]: a host that stalls meanwhile is not seen.
    pub fn queue(&self, warm_up: usize, runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<Queued> {
        let before = Instant::now();
        for _ in 0..warm_up {
            work()?;
        }
        // Twice what queueing took just now; a record is about a launch.
        let each = before.elapsed() / warm_up.max(1) as u32;
        self.stream().synchronize().map_err(Error::failed)?;
        let delay = (each + Duration::from_micros(20)) * 2 * runs as u32;
        self.baseline.delay(delay.min(LONGEST_DELAY).as_micros() as u64).map_err(Error::failed)?;
        let mut marks = Vec::with_capacity(runs);
        let mut host = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = self.record()?;
            let called = Instant::now();
            work()?;
            host.push(called.elapsed().as_secs_f64() * 1e6);
            marks.push((start, self.record()?));
        }
        Ok(Queued { us: median(elapsed(&marks)?)?, host_us: Some(median(host)?) })
    }

    fn record(&self) -> Result<Event> {
        self.stream().record().map_err(Error::failed)
    }
}

/// Whether this is a real GPU, not one that a CPU acts out.
pub fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
}

fn elapsed(marks: &[(Event, Event)]) -> Result<Vec<f64>> {
    let times = marks.iter().map(|(start, end)| end.elapsed_us(start));
    times.collect::<std::result::Result<_, _>>().map_err(Error::failed)
}

fn median(mut times: Vec<f64>) -> Result<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let at = |place: usize| times.get(place).copied().ok_or_else(|| Error::failed("nothing was timed"));
    if times.len().is_multiple_of(2) && middle > 0 {
        return Ok((at(middle - 1)? + at(middle)?) / 2.0);
    }
    at(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_the_middle_or_between_two() {
        assert_eq!(median(vec![5.0, 1.0, 3.0]).expect("a median"), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 9.0]).expect("a median"), 3.5);
        assert!(median(Vec::new()).is_err());
    }
}
