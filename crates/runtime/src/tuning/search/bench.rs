//! What a search asks of a device, and what it tells.

use std::time::Duration;

use rowloom_codegen::Choice;

use crate::tuning::record::Trial;

/// What runs candidates. They are named by their place in the space.
pub trait Bench {
    /// What ends the search.
    type Error;

    /// Compiles these, and tells of each whether it could be; of some it tells nothing when the
    /// budget runs out.
    ///
    /// # Errors
    /// What ends the search.
    fn compile(
        &mut self,
        candidates: &[usize],
        each: &mut dyn FnMut(usize, Result<(), String>),
    ) -> Result<(), Self::Error>;

    /// Compares the bytes that a candidate writes with the default's; the default's own with the
    /// CPU executor's.
    ///
    /// # Errors
    /// What ends the search.
    fn gate(&mut self, candidate: usize) -> Result<Gate, Self::Error>;

    /// Device time of one launch, in microseconds.
    ///
    /// # Errors
    /// What ends the search.
    fn time(&mut self, candidate: usize) -> Result<Time, Self::Error>;

    /// Time since some moment before the search.
    fn now(&self) -> Duration;
}

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The same bytes.
    Equal,
    /// Other bytes: where first.
    Differs(String),
    /// It did not run to its end: why.
    Failed(String),
    /// The budget ran out before its end.
    Late,
}

/// What timing says.
#[derive(Clone, Debug, PartialEq)]
pub enum Time {
    /// Microseconds of a launch.
    Us(f64),
    /// It did not run to its end: why.
    Failed(String),
    /// The budget ran out before its end.
    Late,
}

/// A member of the space.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The candidate.
    pub schedule: Choice,
    /// Hash of its source in hexadecimal digits, or why it is not legal.
    pub source: Result<String, String>,
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This many of so many legal candidates are compiled.
    Compiling {
        /// Compiled.
        done: usize,
        /// All.
        of: usize,
    },
    /// This many of so many compiled candidates were compared.
    Gating {
        /// Compared.
        done: usize,
        /// All.
        of: usize,
    },
    /// A round begins.
    Round {
        /// From 0.
        round: usize,
        /// All.
        of: usize,
        /// Candidates that are still in.
        candidates: usize,
    },
    /// A comparison of the last few begins.
    RunOff {
        /// From 0.
        pair: usize,
        /// All.
        of: usize,
    },
    /// A candidate wrote other bytes than the default.
    Liar {
        /// Which.
        candidate: usize,
    },
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Every candidate, in the order of the space.
    pub trials: Vec<Trial>,
    /// Which runs from now on.
    pub winner: usize,
    /// Median of the default in the last comparison, in microseconds.
    pub default_us: f64,
    /// The same of the winner.
    pub winner_us: f64,
    /// Duration of the search.
    pub took: Duration,
    /// Whether the budget was enough for all of it.
    pub complete: bool,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped<E> {
    /// The bench can go no further.
    Bench(E),
    /// The default does not run, or not right: without it nothing can be compared.
    Default(String),
}
