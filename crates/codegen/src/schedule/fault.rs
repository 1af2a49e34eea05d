//! Why a schedule is not legal, and what parts of it share: limits, and values that a tile declares.

use crate::cuda::{MOST_BLOCKS, MOST_THREADS};
use crate::ir::Kernel;

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

/// The declared values of a field, or the measured ones.
pub(super) fn words<T: std::str::FromStr + Copy>(kernel: &Kernel, field: &str, measured: &[T]) -> Vec<T> {
    match kernel.tile().values(field) {
        Some(values) => values.iter().filter_map(|value| value.parse().ok()).collect(),
        None => measured.to_vec(),
    }
}
