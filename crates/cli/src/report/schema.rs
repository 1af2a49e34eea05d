//! The published schema, with what rowloom adds to it. Field order is the file's.

use rowloom_runtime::baseline::Ceiling;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::accuracy::Accuracy;
use super::latency::Latency;
use super::number::Number;
use super::protocol::Protocol;

/// A map in JSON, in insertion order.
#[derive(Clone, Debug)]
pub struct Keyed<V>(pub Vec<(String, V)>);

impl<V: Serialize> Serialize for Keyed<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<K: ToString, V> FromIterator<(K, V)> for Keyed<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Keyed<V> {
        Keyed(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }
}

/// The whole file.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `h3_prior_art` for the published op, else `rowloom_report`.
    pub kind: String,
    /// The request for comments that published the op.
    pub rfc: Option<String>,
    /// Kernel.
    pub op: String,
    /// Always null: another implementation's commit.
    pub rl_kernel_commit: Option<String>,
    /// Commit that was measured, where it is known.
    pub rowloom_commit: Option<String>,
    /// Whether tracked files differed from it.
    pub tracked_tree_dirty: Option<bool>,
    /// Machine, software, layout.
    pub environment: Environment,
    /// Whether batches are small and runs few.
    pub quick: bool,
    /// What was measured, in full.
    pub protocol: Record,
    /// By mode; there is one.
    pub results: Results,
}

/// Results by mode.
#[derive(Debug, Serialize)]
pub struct Results {
    /// By implementation.
    pub plain: Keyed<Outcome>,
}

/// One implementation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It ran.
    Measured(Box<Measured>),
    /// It cannot run here.
    Unavailable {
        /// Why.
        unavailable: String,
    },
}

/// What was measured of one implementation.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// What ran.
    pub source: String,
    /// Whether it has a backward.
    pub has_backward: bool,
    /// Batch invariance.
    pub batch_invariance: BatchInvariance,
    /// By S.
    pub accuracy_latency: Keyed<AccuracyLatency>,
}

/// Batch invariance: counts of what differs in any byte.
#[derive(Clone, Debug, Serialize)]
pub struct BatchInvariance {
    /// Each position alone against the full batch, by batch.
    pub all_rows: Keyed<AllRows>,
    /// Whether equal calls give equal sums over positions.
    pub params_repeatable: bool,
    /// A large batch against pieces of it.
    pub full_vs_sub_batches: FullVsSub,
    /// Probes in batches of many sizes.
    pub batch_size_sweep: Sweep,
    /// Sums over positions, on which the published checks are silent.
    pub table_gradient: TableGradient,
    /// Whether nothing differed.
    pub batch_invariant: bool,
}

/// Each position alone against the full batch.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct AllRows {
    /// Positions compared.
    pub rows: u64,
    /// Of those, with a different output.
    pub fwd_differ: u64,
    /// Of those, with a different gradient that has a position axis.
    pub rowgrad_differ: u64,
}

/// A large batch against pieces of it.
#[derive(Clone, Debug, Serialize)]
pub struct FullVsSub {
    /// Positions of the whole.
    pub full_batch: u64,
    /// Positions of the pieces.
    pub sub_batch_sizes: Vec<u64>,
    /// Pieces compared.
    pub sub_batches: u64,
    /// Of those, with a different output.
    pub fwd_differ: u64,
    /// Of those, with a different gradient that has a position axis.
    pub rowgrad_differ: u64,
}

/// Probes in batches of many sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Positions of the batches.
    pub batch_sizes: Vec<u64>,
    /// Positions of the whole that are looked at.
    pub probe_rows: Vec<u64>,
    /// Comparisons.
    pub comparisons: u64,
    /// Of those, different.
    pub differ: u64,
    /// The first few.
    pub first_failures: Vec<Failure>,
}

/// A probe that differed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Seed of the whole.
    pub seed: u64,
    /// Positions of the batch.
    pub batch: u64,
    /// Where in the batch the probe was.
    pub position: u64,
    /// Where in the whole it was.
    pub row: u64,
}

/// Sums over positions: what was compared and what differed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableGradient {
    /// Rows against a packing of only their positions.
    pub isolated_rows: u64,
    /// Of those, different.
    pub isolated_rows_differ: u64,
    /// Rows against a packing in which the positions of other rows change places.
    pub other_rows_permuted: u64,
    /// Of those, different.
    pub other_rows_permuted_differ: u64,
    /// Legal schedules against the default; on a CPU, cuts of the columns and numbers of threads.
    pub schedules: u64,
    /// Of those, different.
    pub schedules_differ: u64,
    /// Runs at the largest S against the first.
    pub repeats: u64,
    /// Of those, different.
    pub repeats_differ: u64,
}

impl TableGradient {
    /// Whether nothing differed.
    pub fn is_invariant(&self) -> bool {
        self.isolated_rows_differ + self.other_rows_permuted_differ + self.schedules_differ + self.repeats_differ == 0
    }
}

/// Accuracy against f64, and times in µs, at one S. Null where nothing was measured; an error
/// that is not finite is the word `NaN` or `inf`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccuracyLatency {
    /// max|err| / max|ref| of the outputs.
    pub fwd_rel_err: Number,
    /// The same by input.
    pub grad_rel_err: Keyed<Number>,
    /// How long calls take.
    #[serde(flatten)]
    pub latency: Latency,
    /// Share of the sums over positions that equal the exact sum rounded once.
    pub correctly_rounded: Option<f64>,
}

impl AccuracyLatency {
    /// What was measured at one S.
    pub fn new(accuracy: &Accuracy, latency: Latency) -> AccuracyLatency {
        AccuracyLatency {
            fwd_rel_err: Number(accuracy.fwd_rel_err()),
            grad_rel_err: accuracy.grad_rel_err().map(|(input, error)| (input, Number(error))).collect(),
            latency,
            correctly_rounded: accuracy.correctly_rounded(),
        }
    }
}

impl<V> Default for Keyed<V> {
    fn default() -> Keyed<V> {
        Keyed(Vec::new())
    }
}

/// Machine, software, layout. The published keys first; null where there is none.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// GPU.
    pub gpu: Option<String>,
    /// Its compute capability.
    pub capability: Option<[u32; 2]>,
    /// Always null: no framework runs.
    pub torch: Option<String>,
    /// CUDA version that the driver serves.
    pub cuda: Option<String>,
    /// Always null.
    pub python: Option<String>,
    /// Whether products are rounded to TF32: never.
    pub tf32: bool,
    /// Versions of the published libraries: null, none runs.
    pub libraries: Keyed<Option<String>>,
    /// Always null.
    pub megatron_source_commit: Option<String>,
    /// Environment variables by mode.
    pub mode_environment: Keyed<Keyed<String>>,
    /// Driver version.
    pub driver: Option<String>,
    /// NVRTC version.
    pub nvrtc: Option<String>,
    /// Device as named on the command line.
    pub device: String,
    /// Processor, where a CPU ran it.
    pub cpu: Option<String>,
    /// Threads that ran it there.
    pub threads: Option<usize>,
    /// Day of the report, in UTC.
    pub date: String,
    /// Layout of the positions.
    pub layout: String,
    /// Memory speed by S, in the same run.
    pub ceilings: Keyed<Ceiling>,
}

/// What a call must move, whoever makes it: it is what a ceiling is held against.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Traffic {
    /// `write` where the outputs have a row per position, else `read`.
    pub kind: &'static str,
    /// Bytes of the tensors with a row per position.
    pub bytes_per_position: u64,
}

/// What was measured, in full.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Element type.
    pub dtype: String,
    /// H.
    pub hidden: u64,
    /// Row counts by name.
    pub rows: Keyed<u64>,
    /// Integer type of the indices.
    pub index: String,
    /// The generator of all inputs.
    pub generator: String,
    /// Columns that comparisons hold in memory at once, at the largest S.
    pub columns_at_once: u64,
    /// Directions that sum over positions: what `correctly_rounded` is of.
    pub sums: Vec<&'static str>,
    /// What a call of each direction must move.
    pub traffic: Keyed<Traffic>,
    /// How times were taken.
    pub timing: &'static str,
    /// Batches, seeds, runs.
    #[serde(flatten)]
    pub protocol: Protocol,
}
