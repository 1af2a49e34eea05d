//! What tuning found, as data.

use std::fmt;

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::ir::{Direction, Kernel, Order};
use rowloom_codegen::{Accumulate, Arch, Choice, Spec, Subject, Verified};
use serde::{Deserialize, Serialize};

/// One search and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What it is for.
    #[serde(rename = "for")]
    pub key: For,
    /// What must be so again.
    pub provenance: Provenance,
    /// S at which it was measured.
    pub positions: u64,
    /// What runs when nothing was tuned.
    pub default: Choice,
    /// What runs from now on.
    pub winner: Choice,
    /// Median of the default in the last comparison, in microseconds of device time.
    pub default_us: f64,
    /// The same of the winner: of the same rounds.
    pub winner_us: f64,
    /// Seconds that the search took.
    pub seconds: f64,
    /// Day of the search: `2026-11-30`.
    pub date: String,
    /// Every candidate, in the order of the space.
    pub candidates: Vec<Trial>,
}

/// What a record is for. Equal keys are the same call but for S within the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum For {
    /// A kernel.
    Kernel {
        /// Its name.
        name: String,
        /// Hash of its text form, in hexadecimal digits; of what does not sum without the order.
        kernel: String,
        /// Which way.
        direction: Direction,
        /// At which Spec, its architecture included.
        spec: Spec,
        /// At which S.
        positions: Bucket,
    },
    /// A plan.
    Plan {
        /// Of this shape.
        shape: PlanShape,
        /// For which architecture.
        arch: Arch,
        /// At which S.
        positions: Bucket,
    },
}

/// The S that share a record: from a power of two to the next, without that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Smallest S.
    from: u64,
    /// Largest S.
    to: u64,
}

/// Where a record was made. All but the commit must be so again where it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The GPU's product name.
    pub product: String,
    /// Its driver; none in emulation.
    pub driver: Option<String>,
    /// The NVRTC that compiled; none in emulation.
    pub nvrtc: Option<String>,
    /// Hash of the winner's source, in hexadecimal digits.
    pub source: String,
}

/// A candidate and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The candidate.
    pub schedule: Choice,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It was timed.
    Timed {
        /// Median device time of a launch in microseconds.
        us: f64,
        /// Times behind the median: fewer where it was dropped early.
        rounds: u32,
        /// Whether it wrote the default's bytes. Only such are timed.
        bit_equal: bool,
    },
    /// It wrote other bytes: a fault of rowloom.
    Differs {
        /// `false`.
        bit_equal: bool,
        /// Where first: output, row and column.
        differs: String,
    },
    /// It is not legal.
    Illegal {
        /// Why.
        illegal: String,
    },
    /// It did not compile, did not end, or ended badly.
    Failed {
        /// How.
        failed: String,
    },
}

impl Bucket {
    /// Whether it holds `positions`.
    pub fn holds(self, positions: u64) -> bool {
        (self.from..=self.to).contains(&positions)
    }

    /// The one that holds `positions`, at least 1.
    pub fn of(positions: u64) -> Bucket {
        let from = 1 << positions.max(1).ilog2();
        Bucket { from, to: from + (from - 1) }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.from, self.to)
    }
}

/// In words for people; keys that differ may read alike.
impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |words: Vec<String>| words.join(", ");
        match self {
            For::Kernel { name, direction, spec, positions, kernel: _ } => {
                let direction = match direction {
                    Direction::Forward => "forward",
                    Direction::Backward => "backward",
                };
                let checked = if spec.planned { "" } else { ", checked" };
                let floats = list(spec.floats.iter().map(ToString::to_string).collect());
                let counts = list(spec.counts.iter().map(ToString::to_string).collect());
                let (hidden, arch) = (spec.hidden, spec.arch);
                write!(
                    f,
                    "{name} {direction}{checked} of {floats}, rows {counts}, H = {hidden}, {arch}, S = {positions}"
                )
            }
            For::Plan { shape, arch, positions } => {
                let terms = list(shape.terms.iter().map(|term| format!("{} below {}", term.ty, term.bound)).collect());
                write!(f, "a plan of {terms}, rows {}, {arch}, S = {positions}", shape.rows)
            }
        }
    }
}

impl For {
    /// The S that share it.
    pub fn positions(&self) -> Bucket {
        match self {
            For::Kernel { positions, .. } | For::Plan { positions, .. } => *positions,
        }
    }

    /// The same call at `positions`, of the same Spec.
    pub fn at(&self, positions: u64) -> For {
        let mut key = self.clone();
        match &mut key {
            For::Kernel { positions: bucket, .. } | For::Plan { positions: bucket, .. } => {
                *bucket = Bucket::of(positions);
            }
        }
        key
    }

    /// The key of a subject at `positions` on an architecture.
    pub fn of(subject: &Subject, arch: Arch, positions: u64) -> For {
        let positions = Bucket::of(positions);
        match subject {
            Subject::Kernel { kernel, spec } => For::Kernel {
                name: kernel.name.clone(),
                kernel: blake3::hash(text(kernel).as_bytes()).to_string(),
                direction: kernel.direction,
                spec: Spec { arch, ..spec.clone() },
                positions,
            },
            Subject::Plan(shape) => For::Plan { shape: shape.clone(), arch, positions },
        }
    }
}

/// What tells kernels apart. Without sums an order means nothing: one record serves all.
fn text(kernel: &Verified) -> String {
    if kernel.sums() {
        return kernel.to_string();
    }
    let mut kernel = Kernel::clone(kernel);
    kernel.order = Order { block: 1, accumulate: Accumulate::F32 };
    kernel.to_string()
}
