//! What a run found, as the file and the table show it.

use std::collections::BTreeMap;

use rowloom_runtime::tuning::{Outcome, Record, Trial};
use serde::Serialize;

use super::subjects::Named;

/// Speeds of memory in the same run by S: reading, writing, copying. Nothing in emulation.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Ceilings(BTreeMap<u64, Option<Speeds>>);

/// In 10^9 bytes a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Speeds {
    read_gb_s: f64,
    write_gb_s: f64,
    copy_gb_s: f64,
}

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Results {
    /// `rowloom_tuning`.
    pub kind: &'static str,
    /// The kernel.
    pub op: &'static str,
    /// Element type.
    pub dtype: String,
    /// H.
    pub hidden: u64,
    /// Row counts by their names.
    pub rows: BTreeMap<String, u64>,
    /// Integer type of the indices.
    pub index: String,
    /// Packings whose times were averaged.
    pub layouts: Vec<String>,
    /// Where.
    pub device: String,
    /// The product's name.
    pub product: String,
    /// Its driver's release; where the system does not tell, the version of CUDA that it supports.
    pub driver: Option<String>,
    /// Commit of rowloom, where it is known.
    pub rowloom_commit: Option<String>,
    /// Whether its files differed from that commit.
    pub tracked_tree_dirty: Option<bool>,
    /// Day of the run.
    pub date: String,
    /// All of it.
    pub seconds: f64,
    /// Memory's speed.
    pub ceilings: Ceilings,
    /// One for each subject and S.
    pub results: Vec<Result>,
}

/// What was found of one subject at one S.
#[derive(Debug, Serialize)]
pub struct Result {
    /// What people call it.
    pub name: String,
    /// S.
    pub positions: u64,
    /// Whether the budget was enough.
    pub complete: bool,
    /// All of it.
    pub seconds: f64,
    /// Bytes that a call must read.
    pub read_bytes: u64,
    /// Bytes that it must write.
    pub written_bytes: u64,
    /// What was measured; nothing where the budget ended before the first time. Calls use it from
    /// now on if the search is complete; else it was not kept.
    pub record: Option<Record>,
    /// Whether the search was begun: not where the budget had run out before.
    pub searched: bool,
    /// Why the record that there was stays in place of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_stays: Option<String>,
    /// Why there is none, where the search itself came to no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Every candidate, where there is no record that has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Trial>,
}

/// How many candidates came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Timed.
    pub timed: usize,
    /// Not legal.
    pub illegal: usize,
    /// That wrote other bytes.
    pub differ: usize,
    /// That did not run.
    pub failed: usize,
}

impl Ceilings {
    /// Those at one S.
    pub fn insert(&mut self, positions: u64, speeds: Option<[f64; 3]>) {
        let speeds = speeds.map(|[read_gb_s, write_gb_s, copy_gb_s]| Speeds { read_gb_s, write_gb_s, copy_gb_s });
        self.0.insert(positions, speeds);
    }

    /// Microseconds that memory itself needs for what a call must move, and which ceiling that is.
    pub fn us(&self, result: &Result) -> Option<(f64, &'static str)> {
        let Speeds { read_gb_s, write_gb_s, copy_gb_s } = (*self.0.get(&result.positions)?)?;
        let (bytes, gb_s, name) = match (result.read_bytes, result.written_bytes) {
            (0, written) => (written, write_gb_s, "write"),
            (read, 0) => (read, read_gb_s, "read"),
            (read, written) => (read + written, copy_gb_s, "copy"),
        };
        Some((bytes as f64 / gb_s / 1e3, name))
    }
}

impl Result {
    /// Of a subject that nothing was found of.
    pub fn none(named: &Named, positions: u64) -> Result {
        let Named { name, read_bytes, written_bytes, .. } = named;
        Result {
            name: name.clone(),
            positions,
            complete: false,
            seconds: 0.0,
            read_bytes: *read_bytes,
            written_bytes: *written_bytes,
            record: None,
            searched: false,
            earlier_stays: None,
            failed: None,
            candidates: Vec::new(),
        }
    }

    /// Every candidate.
    pub fn candidates(&self) -> &[Trial] {
        self.record.as_ref().map_or(&self.candidates, |record| &record.candidates)
    }

    /// How many candidates came to what.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for trial in self.candidates() {
            *match trial.outcome {
                Outcome::Timed { .. } => &mut counts.timed,
                Outcome::Illegal { .. } => &mut counts.illegal,
                Outcome::Differs { .. } => &mut counts.differ,
                Outcome::Failed { .. } => &mut counts.failed,
            } += 1;
        }
        counts
    }
}
