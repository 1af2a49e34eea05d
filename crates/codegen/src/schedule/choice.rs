//! Which schedules are legal, which is the default, and the space between.

use std::collections::HashSet;

use super::{Schedule, positions, segments};
use crate::cuda::{MOST_BLOCKS, MOST_THREADS};
use crate::ir::{Kernel, OutputKind, Verified};
use crate::spec::Spec;

/// Why a schedule is not legal for a kernel and a Spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleFault {
    /// A part that the kernel has no output for, or none where it has.
    #[error("{kernel} {needs} a schedule for {part}")]
    Part {
        /// Kernel.
        kernel: String,
        /// `needs`, or `has no use for`.
        needs: &'static str,
        /// Which part.
        part: &'static str,
    },
    /// A field with a value that no schedule may take.
    #[error("{field} = {value} is not legal: {why}")]
    Field {
        /// Field.
        field: &'static str,
        /// Its value.
        value: String,
        /// Why.
        why: &'static str,
    },
    /// A schedule of something else.
    #[error("this is a schedule of {of}, not of {is}")]
    Subject {
        /// What it is of.
        of: &'static str,
        /// What was to run.
        is: &'static str,
    },
    /// Outside of the declared tile.
    #[error("{kernel} declares a tile that leaves out {schedule}")]
    Tile {
        /// Kernel.
        kernel: String,
        /// The schedule.
        schedule: String,
    },
}

pub(super) fn threads_are_legal(threads: u32) -> bool {
    threads.is_multiple_of(32) && (32..=1024).contains(&threads)
}

pub(super) fn check_threads(threads: u32) -> Result<(), ScheduleFault> {
    if threads_are_legal(threads) {
        return Ok(());
    }
    Err(field("threads", threads, "it is no multiple of 32 up to 1024"))
}

pub(super) fn check_resident(resident: u32, threads: u32) -> Result<(), ScheduleFault> {
    if (1..=MOST_BLOCKS).contains(&resident) && resident * threads <= MOST_THREADS {
        return Ok(());
    }
    Err(field("resident", resident, "a multiprocessor holds 16 blocks and 1536 threads"))
}

pub(super) fn field(field: &'static str, value: impl ToString, why: &'static str) -> ScheduleFault {
    ScheduleFault::Field { field, value: value.to_string(), why }
}

/// Whether the kernel has outputs with a row per position, and sums over positions.
pub(crate) fn parts(kernel: &Kernel) -> (bool, bool) {
    let is_rows = |kind: &OutputKind| matches!(kind, OutputKind::Rows(_));
    let positions = kernel.outputs.iter().any(|output| is_rows(&output.kind));
    let segments = kernel.outputs.iter().any(|output| !is_rows(&output.kind));
    (positions, segments)
}

impl Schedule {
    /// Whether this schedule may run the kernel.
    pub fn check(&self, kernel: &Verified, spec: &Spec) -> Result<(), ScheduleFault> {
        let (positions, segments) = parts(kernel);
        let part = |needed: bool, given: bool, part| match (needed, given) {
            (true, false) => Err(ScheduleFault::Part { kernel: kernel.name.clone(), needs: "needs", part }),
            (false, true) => Err(ScheduleFault::Part { kernel: kernel.name.clone(), needs: "has no use for", part }),
            (true, true) | (false, false) => Ok(()),
        };
        part(positions, self.positions.is_some(), "outputs with a row per position")?;
        part(segments, self.segments.is_some(), "sums over positions")?;
        if let Some(part) = self.positions {
            part.check()?;
        }
        if let Some(part) = self.segments {
            part.check(kernel, spec)?;
        }
        let tile = kernel.tile();
        let inside = self.positions.is_none_or(|part| tile.allows_positions(&part))
            && self.segments.is_none_or(|part| tile.allows_segments(&part));
        if inside {
            return Ok(());
        }
        Err(ScheduleFault::Tile { kernel: kernel.name.clone(), schedule: self.to_string() })
    }

    /// What runs when nothing was tuned: the first legal schedule of the space, which
    /// begins with the measured rules. `None` when the declared tile leaves none for this Spec.
    pub fn default_for(kernel: &Verified, spec: &Spec) -> Option<Schedule> {
        Schedule::space(kernel, spec).into_iter().find(|schedule| schedule.check(kernel, spec).is_ok())
    }

    /// Every candidate that the declared tile allows, in a fixed order, legal or not.
    ///
    /// Outputs per position and sums over positions run in launches of their own, so
    /// each part is varied beside the first legal one of the other.
    pub fn space(kernel: &Verified, spec: &Spec) -> Vec<Schedule> {
        let (has_positions, has_segments) = parts(kernel);
        let tile = kernel.tile();
        let mut positions = if has_positions { positions::space(kernel, spec) } else { vec![] };
        positions.retain(|part| tile.allows_positions(part));
        let mut segments = if has_segments { segments::space(kernel, spec) } else { vec![] };
        segments.retain(|part| tile.allows_segments(part));
        let one_positions = positions.iter().find(|part| part.check().is_ok()).copied();
        let one_segments = segments.iter().find(|part| part.check(kernel, spec).is_ok()).copied();
        let first = positions.into_iter().map(|part| Schedule { positions: Some(part), segments: one_segments });
        let second = segments.into_iter().map(|part| Schedule { positions: one_positions, segments: Some(part) });
        let mut seen = HashSet::new();
        first.chain(second).filter(|schedule| seen.insert(*schedule)).collect()
    }
}

/// The declared values of a field, or the measured ones.
pub(super) fn words<T: std::str::FromStr + Copy>(kernel: &Kernel, field: &str, measured: &[T]) -> Vec<T> {
    match kernel.tile().values(field) {
        Some(values) => values.iter().filter_map(|value| value.parse().ok()).collect(),
        None => measured.to_vec(),
    }
}
