//! Times of a device's work alone: whatever the host does meanwhile is not in them.

use std::time::{Duration, Instant};

use super::Baseline;
use crate::error::Error;
use crate::stream::Event;

/// Longest that a GPU is kept waiting, so that the host can queue ahead.
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// Times of runs that were queued one behind the other, in microseconds, in their order.
#[derive(Clone, Debug, Default)]
pub struct QueuedTimes {
    /// On the device, from one event to the next.
    pub us: Vec<f64>,
    /// Of the host, to queue them.
    pub host_us: Vec<f64>,
}

impl Baseline {
    /// Times `runs` runs of what only queues work and allocates nothing, after `warm_up` untimed ones.
    /// The device starts when all is queued, or after [`LONGEST_DELAY`]: a host that stalls
    /// meanwhile is not seen.
    ///
    /// # Errors
    /// Those of `work`; [`Error::OnlyGpu`] elsewhere than on a GPU; what the device reports.
    pub fn queue<E: From<Error>>(
        &self,
        warm_up: usize,
        runs: usize,
        mut work: impl FnMut() -> Result<(), E>,
    ) -> Result<QueuedTimes, E> {
        let before = Instant::now();
        for _ in 0..warm_up {
            work()?;
        }
        // Twice what queueing took just now; a record is about a launch.
        let each = before.elapsed() / warm_up.max(1) as u32;
        self.stream.synchronize()?;
        let delay = (each + Duration::from_micros(20)) * 2 * runs as u32;
        self.delay(delay.min(LONGEST_DELAY).as_micros() as u64)?;
        let mut marks = Vec::with_capacity(runs);
        let mut host_us = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = self.stream.record()?;
            let called = Instant::now();
            work()?;
            host_us.push(called.elapsed().as_secs_f64() * 1e6);
            marks.push((start, self.stream.record()?));
        }
        Ok(QueuedTimes { us: elapsed_us(&marks)?, host_us })
    }
}

/// Microseconds from the first to the second of each pair. Waits for all.
///
/// # Errors
/// As [`Event::elapsed_us`].
pub fn elapsed_us(marks: &[(Event, Event)]) -> Result<Vec<f64>, Error> {
    marks.iter().map(|(start, end)| end.elapsed_us(start)).collect()
}

/// The middle one, or between the two in the middle; `None` of nothing.
pub fn median(times: &[f64]) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let above = *times.get(middle)?;
    Some(if times.len().is_multiple_of(2) { (times[middle - 1] + above) / 2.0 } else { above })
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians_are_the_middle_or_between_two() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 9.0]), Some(3.5));
        assert_eq!(median(&[]), None);
    }
}
