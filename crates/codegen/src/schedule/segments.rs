//! How sums over positions are computed.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use super::fault::{check_resident, check_threads, field, words};
use crate::cuda::{lanes, segments};
use crate::dtype::Accumulate;
use crate::ir::{Kernel, Op, Shape, Verified};
use crate::spec::{Arch, SClass, Spec};

pub(super) const MAX_COLUMNS: u32 = 8;
pub(super) const MAX_UNROLL: u32 = 32;
pub(super) const MAX_RUN: u32 = 8;

/// Rows from which there are enough of them to fill a GPU one block each, and too many to have
/// memory for each.
const MANY_ROWS: u64 = 1024;

/// Bytes of shared memory that a block of every architecture has without asking.
const SHARED_BYTES: u64 = 48 << 10;

/// How sums over positions are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentsSchedule {
    /// What a block does and who folds.
    pub kind: SegmentsKind,
    /// Threads of a block: a multiple of 32 up to 1024.
    pub threads: u32,
    /// Columns of a thread: a power of two up to 8.
    pub columns: u32,
    /// Positions whose loads a thread has in flight: a power of two up to 32.
    pub unroll: u32,
    /// Blocks of positions that a block sums one after the other before it hands on: a power of
    /// two up to 8. More than one is for [`SegmentsKind::HandOn`].
    pub run: u32,
    /// Blocks that a multiprocessor must be able to hold, up to 16: more of them leave a thread
    /// fewer registers. Of [`SegmentsKind::HandOn`] as many are launched.
    pub resident: u32,
    /// Whether loads of rows with a position are marked as not to be read again soon. Needs sm_80.
    pub streaming: bool,
}

/// What a block computes of sums over positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentsKind {
    /// A run of blocks of positions × one tile of columns, then the next run that nobody has. The
    /// sum of a row that goes on is handed from run to run; within a run it stays in the block.
    ///
    /// Legal when each sum goes through one row expression, some row may have two blocks, and rows
    /// are fewer than 1024. Good for long segments of any length: little is written, and only what is handed on. Cost:
    /// a block may wait for an earlier one, and few runs do not fill a GPU.
    HandOn,
    /// One block of positions of a row × one tile of columns; the last of a row to arrive folds.
    ///
    /// Legal when each sum goes through one row expression. Good for middling segments in one
    /// launch. Cost: partial sums of every block of positions are written and read once, and a
    /// counter per row and tile is cleared first.
    Blocks,
    /// The same, folded by a second entry.
    ///
    /// Legal when each sum goes through one row expression. Good when the fold
    /// of a very long row would keep one block busy at the end. Cost: a second
    /// launch.
    TwoPass,
    /// One row × one tile of columns, block of positions after block.
    ///
    /// Legal always. Good when segments are short or rows are many: no partial
    /// sums, no scratch memory. Cost: a long row is one block's work.
    Rows,
}

impl SegmentsSchedule {
    pub(crate) const KEYS: [&'static str; 7] = ["kind", "threads", "columns", "unroll", "run", "resident", "streaming"];

    pub(super) fn check(&self, kernel: &Verified, spec: &Spec) -> Result<(), ScheduleFault> {
        let SegmentsSchedule { kind, threads, columns, unroll, run, resident, streaming } = *self;
        check_threads(threads)?;
        if !unroll.is_power_of_two() || unroll > MAX_UNROLL {
            return Err(field("unroll", unroll, "it is no power of two up to 32"));
        }
        if !columns.is_power_of_two() || columns > widest_columns(kernel, spec) {
            return Err(field("columns", columns, "one access of some tensor covers fewer"));
        }
        if !run.is_power_of_two() || run > MAX_RUN {
            return Err(field("run", run, "it is no power of two up to 8"));
        }
        if run > 1 && kind != SegmentsKind::HandOn {
            return Err(field("run", run, "only blocks that hand on sum several blocks of positions"));
        }
        check_resident(resident, threads)?;
        if streaming && spec.arch < Arch(80) {
            return Err(field("streaming", streaming, "the architecture has no such loads"));
        }
        if kind != SegmentsKind::Rows && adds_tables(kernel) {
            return Err(field("kind", kind.name(), "a table is read through several row expressions"));
        }
        if kind == SegmentsKind::HandOn {
            if spec.s_class == SClass::OneBlock {
                return Err(field("kind", kind.name(), "no row has two blocks of positions"));
            }
            if many_rows(kernel, spec) {
                return Err(field("kind", kind.name(), "each row has blocks of its own, and their runs memory"));
            }
            let kept = u64::from(run * threads * columns * kernel.order.accumulate.bytes());
            if kept + 4 * u64::from(kernel.order.block) + 8 > SHARED_BYTES {
                return Err(field("run", run, "its sums do not fit the shared memory of a block"));
            }
        }
        Ok(())
    }
}

/// Most columns that one access of every tensor with sums over positions covers.
fn widest_columns(kernel: &Kernel, spec: &Spec) -> u32 {
    lanes::segments(kernel, spec).min(MAX_COLUMNS)
}

/// Whether some value is a sum through several row expressions.
fn adds_tables(kernel: &Kernel) -> bool {
    kernel.nodes.iter().any(|node| matches!(node.op, Op::Add { .. }) && matches!(node.shape, Shape::Table(_)))
}

/// First what was measured fastest (H200, H = 5376, bf16; µs at S = 4097, 32768 and 131072, plain
/// read 66, 475 and 1872):
///
/// - handing on, whatever the lengths of the rows: 493 and 1906 in f32, of random rows and of one
///   that holds 98 % in the mean, where two passes take 502 and 1987: partial sums are 1 % of the
///   traffic and 4 % of the time. Where S is short, runs are too few to fill a GPU: two passes
///   take 68, handing on 79. Where rows are many, block by block (R = 4096, S = 131072: 370 in the
///   mean). Row by row is the fastest where all rows are about as long, 478 and 1868, and as slow
///   as its longest row where they are not; the Spec does not say. So it comes first only where
///   all rows are of one block;
/// - runs of 4;
/// - 192 threads with 16 positions in flight, of one widest access each; 96 and half of one in
///   f64, whose sums take twice the registers; 96 with 8 where S is short.
pub(super) fn space(kernel: &Verified, spec: &Spec) -> Vec<SegmentsSchedule> {
    let short = short(spec);
    let kinds = if spec.s_class == SClass::OneBlock {
        [SegmentsKind::Rows, SegmentsKind::Blocks, SegmentsKind::TwoPass, SegmentsKind::HandOn]
    } else if many_rows(kernel, spec) {
        [SegmentsKind::Blocks, SegmentsKind::TwoPass, SegmentsKind::Rows, SegmentsKind::HandOn]
    } else if short {
        [SegmentsKind::TwoPass, SegmentsKind::Blocks, SegmentsKind::HandOn, SegmentsKind::Rows]
    } else {
        [SegmentsKind::HandOn, SegmentsKind::Blocks, SegmentsKind::TwoPass, SegmentsKind::Rows]
    };
    let widest = widest_columns(kernel, spec);
    let half = (widest / 2).max(1);
    let (columns, threads) = match (kernel.order.accumulate, short) {
        (Accumulate::F32, false) => ([widest, half], [192, 96, 64, 128]),
        (Accumulate::F32, true) => ([widest, half], [96, 64, 128, 192]),
        (Accumulate::F64, _) => ([half, widest], [96, 64, 128, 192]),
    };
    // No more threads than a row has accesses.
    let needed = spec.hidden.div_ceil(columns[0].into()).next_multiple_of(32).min(192) as u32;
    let threads = threads.map(|threads: u32| threads.min(needed));
    let fields = Fields {
        threads: words(kernel, "threads", &threads),
        columns: words(kernel, "columns", &columns),
        unroll: words(kernel, "unroll", if short { &[8, 16, 4] } else { &[16, 8, 4] }),
        run: words(kernel, "run", if short { &[2, 1, 4, 8] } else { &[4, 2, 8, 1] }),
        resident: words(kernel, "resident", &[]),
        streaming: words(kernel, "streaming", &[true, false]),
    };
    let mut space: Vec<SegmentsSchedule> =
        kinds.into_iter().flat_map(|kind| fields.around_the_first(kernel, spec, kind)).collect();
    let mut seen = HashSet::new();
    space.retain(|schedule| seen.insert(*schedule));
    space
}

/// Whether the blocks of positions may be as many as the rows.
fn many_rows(kernel: &Kernel, spec: &Spec) -> bool {
    kernel.rows.iter().filter_map(|row| row.rows.value(&spec.counts)).max() >= Some(MANY_ROWS)
}

/// Whether blocks of positions are too few to fill a large GPU many times over.
fn short(spec: &Spec) -> bool {
    spec.s_class == SClass::Short
}

/// The values of each field, the most promising first.
struct Fields {
    threads: Vec<u32>,
    columns: Vec<u32>,
    unroll: Vec<u32>,
    run: Vec<u32>,
    /// None: what registers leave room for, and one more and one less.
    resident: Vec<u32>,
    streaming: Vec<bool>,
}

impl Fields {
    /// The first of everything, and what differs from it in one or two fields that belong together:
    /// threads, columns and unroll decide how a thread loads; run and resident how work is dealt.
    fn around_the_first(&self, kernel: &Verified, spec: &Spec, kind: SegmentsKind) -> Vec<SegmentsSchedule> {
        let (Some(&threads), Some(&columns), Some(&unroll)) =
            (self.threads.first(), self.columns.first(), self.unroll.first())
        else {
            return Vec::new();
        };
        let mut shapes = vec![(threads, columns, unroll)];
        shapes.extend(self.unroll.iter().map(|&unroll| (threads, columns, unroll)));
        shapes.extend(self.threads.iter().map(|&threads| (threads, columns, unroll)));
        for &columns in &self.columns {
            // Half the columns leave registers for twice the threads.
            shapes.extend(self.threads.iter().map(|&threads| (threads, columns, unroll)).take(2));
            shapes.extend(self.unroll.iter().map(|&unroll| (threads, columns, unroll)).take(2));
        }
        let mut space = Vec::new();
        for (at, (threads, columns, unroll)) in shapes.into_iter().enumerate() {
            let fit = segments::resident(kernel, spec, threads, columns, unroll);
            let residents = match self.resident.as_slice() {
                // Conversions of long sums take some more registers.
                [] if kernel.order.accumulate == Accumulate::F64 && !short(spec) => {
                    vec![fit.saturating_sub(1).max(1), fit, fit + 1]
                }
                [] => vec![fit, fit.saturating_sub(1).max(1), fit + 1],
                declared => declared.to_vec(),
            };
            let runs = if kind == SegmentsKind::HandOn { self.run.as_slice() } else { &[1] };
            for (place, &run) in runs.iter().enumerate() {
                for (other, &resident) in residents.iter().enumerate() {
                    for (hint, &streaming) in self.streaming.iter().enumerate() {
                        // All of how work is dealt for the first shape; the first two runs for others.
                        let near = at == 0 && (kind == SegmentsKind::HandOn || other + hint <= 1);
                        if near || (other == 0 && hint == 0 && place < 2) {
                            space.push(SegmentsSchedule { kind, threads, columns, unroll, run, resident, streaming });
                        }
                    }
                }
            }
        }
        space
    }
}

impl SegmentsKind {
    /// Every kind.
    pub const ALL: [SegmentsKind; 4] =
        [SegmentsKind::HandOn, SegmentsKind::Blocks, SegmentsKind::TwoPass, SegmentsKind::Rows];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            SegmentsKind::HandOn => "hand_on",
            SegmentsKind::Blocks => "blocks",
            SegmentsKind::TwoPass => "two_pass",
            SegmentsKind::Rows => "rows",
        }
    }
}

impl fmt::Display for SegmentsSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentsSchedule { kind, threads, columns, unroll, run, resident, streaming } = self;
        write!(
            f,
            "kind = {}, threads = {threads}, columns = {columns}, unroll = {unroll}, run = {run}, \
             resident = {resident}, streaming = {streaming}",
            kind.name()
        )
    }
}
