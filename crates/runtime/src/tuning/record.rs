//! What tuning found, as data.

use std::fmt;

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::ir::{Direction, Kernel, Order};
use rowloom_codegen::{Accumulate, Arch, Choice, SClass, Spec, Subject, Verified};
use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::notice::one_line;

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

impl Record {
    /// Whether it is what a search may have made, as far as it tells by itself.
    ///
    /// # Errors
    /// The first thing that no search writes.
    pub fn check(&self) -> Result<(), Refusal> {
        let unsound = |what: String| Err(Refusal::Unsound(what));
        let bucket = self.key.positions();
        if bucket != Bucket::of(bucket.from) {
            return unsound(format!("S = {bucket} is not from a power of two to the next"));
        }
        if !bucket.holds(self.positions) {
            return unsound(format!("it was measured at S = {}, which is not in {bucket}", self.positions));
        }
        if let For::Kernel { spec, kernel, .. } = &self.key {
            // Which S are one block, the kernel alone tells.
            let is_long = SClass::of(self.positions, 1) == SClass::Long;
            if is_long != (spec.s_class == SClass::Long) {
                return unsound(format!("S = {} is of another class than its Spec says", self.positions));
            }
            if !is_hash(kernel) {
                return unsound("it names its kernel by what is no hash".to_owned());
            }
        }
        if !is_hash(&self.provenance.source) {
            return unsound("its source is named by what is no hash".to_owned());
        }
        let of_candidates = self.candidates.iter().filter_map(|trial| match trial.outcome {
            Outcome::Timed { us, .. } => Some(us),
            Outcome::Differs { .. } | Outcome::Illegal { .. } | Outcome::Failed { .. } => None,
        });
        let mut times = [self.default_us, self.winner_us].into_iter().chain(of_candidates);
        if let Some(us) = times.find(|us| !(us.is_finite() && *us > 0.0)) {
            return unsound(format!("{us} us is no time"));
        }
        if !(self.seconds.is_finite() && self.seconds >= 0.0) {
            return unsound(format!("the search took {} s", self.seconds));
        }
        Ok(())
    }
}

/// Whether it is a hash as records write it.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
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

/// In words for people; keys that differ may read alike. The order of sums is in the kernel's hash
/// alone: [`For::in_words`] names it where it is known.
impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(None))
    }
}

impl For {
    /// In one line for people, with the type of its sums where the kernel is known and has some.
    pub fn in_words(&self, sums: Option<Accumulate>) -> String {
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
                let sums = sums.map_or(String::new(), |sums| format!(", {sums} sums"));
                let name = one_line(name);
                format!(
                    "{name} {direction}{checked} of {floats}{sums}, rows {counts}, H = {hidden}, {arch}, S = {positions}"
                )
            }
            For::Plan { shape, arch, positions } => {
                let terms = list(shape.terms.iter().map(|term| format!("{} below {}", term.ty, term.bound)).collect());
                format!("a plan of {terms}, rows {}, {arch}, S = {positions}", shape.rows)
            }
        }
    }

    /// The type of a subject's sums, if it has any.
    pub fn sums(subject: &Subject) -> Option<Accumulate> {
        match subject {
            Subject::Kernel { kernel, .. } if kernel.sums() => Some(kernel.order.accumulate),
            Subject::Kernel { .. } | Subject::Plan(_) => None,
        }
    }

    /// The architecture whose sources it is for.
    pub fn arch(&self) -> Arch {
        match self {
            For::Kernel { spec, .. } => spec.arch,
            For::Plan { arch, .. } => *arch,
        }
    }

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
