//! What a search and the process that does its device work say to each other: a line of JSON
//! each, over the standard input and output of that process.

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::{Arch, Choice, Kernel, Spec, Subject};
use rowloom_runtime::baseline::Ceiling;
use rowloom_runtime::tuning::Provenance;
use serde::{Deserialize, Serialize};

/// What is asked for. Every request has one reply, but for [`Request::Compile`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Makes the data of a subject: [`Reply::Done`].
    Open(Box<Job>),
    /// A [`Reply::Compiled`] for each, in any order, and [`Reply::Done`].
    Compile {
        /// By their places in the space.
        candidates: Vec<(usize, Choice)>,
    },
    /// The default's bytes with the CPU executor's: [`Reply::Checked`].
    CheckDefault,
    /// A candidate's bytes with the default's: [`Reply::Checked`].
    Check {
        /// The candidate.
        candidate: Choice,
    },
    /// [`Reply::Timed`].
    Time {
        /// What runs.
        candidate: Choice,
    },
    /// Where a record of this winner is made: [`Reply::Made`].
    Provenance {
        /// The winner.
        winner: Choice,
    },
    /// How fast memory is: [`Reply::Ceiling`]. The data of the subject is given up.
    Ceiling {
        /// Bytes that are moved.
        bytes: u64,
    },
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The first line.
    Device {
        /// `cuda:0`.
        name: String,
        /// The product's name.
        product: String,
        /// What sources are generated for.
        arch: Arch,
        /// Its driver's release; where the system does not tell, the version of CUDA that it supports.
        driver: Option<String>,
    },
    /// It was done.
    Done,
    /// One was compiled, or not: why.
    Compiled {
        /// Its place in the space.
        candidate: usize,
        /// Why not.
        failed: Option<String>,
    },
    /// Bytes were compared.
    Checked {
        /// Where they differ first.
        differs: Option<String>,
    },
    /// A launch was timed.
    Timed {
        /// Microseconds.
        us: f64,
    },
    /// Where a record is made.
    Made(Provenance),
    /// How fast memory is; nothing in emulation, which has no speed.
    Ceiling(Option<[f64; 3]>),
    /// It could not be done: why.
    Failed(String),
}

/// What is searched for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Of what.
    pub subject: Text,
    /// S.
    pub positions: u64,
    /// What runs when nothing was tuned.
    pub default: Choice,
    /// The indices of the subject, in their order.
    pub indices: Vec<Index>,
    /// How positions are packed.
    pub layouts: Vec<String>,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its name in the declaration.
    pub name: String,
    /// Exclusive bound of its numbers.
    pub bound: u64,
}

/// A subject in text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// A kernel.
    Kernel {
        /// In its text form.
        kernel: String,
        /// At which Spec.
        spec: Spec,
    },
    /// A plan.
    Plan(PlanShape),
}

impl Text {
    /// Of a subject.
    pub fn of(subject: &Subject) -> Text {
        match subject {
            Subject::Kernel { kernel, spec } => Text::Kernel { kernel: kernel.to_string(), spec: spec.clone() },
            Subject::Plan(shape) => Text::Plan(shape.clone()),
        }
    }

    /// The subject.
    pub fn subject(self) -> Result<Subject, String> {
        match self {
            Text::Kernel { kernel, spec } => {
                let kernel = Kernel::parse(&kernel).map_err(|error| error.to_string())?;
                let verified = kernel.verify().map_err(|faults| format!("{faults:?}"))?;
                Ok(Subject::Kernel { kernel: verified, spec })
            }
            Text::Plan(shape) => Ok(Subject::Plan(shape)),
        }
    }
}

/// Reading, writing, copying, in 10^9 bytes a second.
pub fn speeds(ceiling: Ceiling) -> [f64; 3] {
    [ceiling.read_gb_s, ceiling.write_gb_s, ceiling.copy_gb_s]
}
