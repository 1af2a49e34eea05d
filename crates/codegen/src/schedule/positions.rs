//! How outputs with a row per position are computed.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use super::choice::{check_resident, check_threads, field, words};
use crate::cuda::{MOST_BLOCKS, MOST_THREADS, lanes};
use crate::ir::{Kernel, Op, OutputKind};
use crate::spec::Spec;

pub(super) const MAX_POSITIONS: u32 = 16;

/// Threads of a multiprocessor that keep enough loads and stores in flight: 64 registers each.
/// Asked for nothing, the compiler aims at as many threads as fit, with 32 registers each, and
/// spills for it.
const RESIDENT_THREADS: u32 = 1024;

/// How outputs with a row per position are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionsSchedule {
    /// What a block does.
    pub kind: PositionsKind,
    /// Threads of a block: a multiple of 32 up to 1024.
    pub threads: u32,
    /// Positions of a block, one after the other: a power of two up to 16.
    ///
    /// Good with several: their rows are read, and checked where they come from indices, by a
    /// thread each before the first is copied, so one wait serves all of them and indices are
    /// read once a block instead of once a warp. Cost: a barrier, and few positions do not fill
    /// a GPU.
    pub positions: u32,
    /// Blocks that a multiprocessor must be able to hold, up to 16: more of them leave a thread
    /// fewer registers.
    pub resident: u32,
    /// Whether no more blocks are launched than [`resident`](PositionsSchedule::resident) for
    /// each multiprocessor; these take all the work.
    ///
    /// Good when starting a block costs as much as its work. Cost: work is dealt before it is
    /// known which blocks are fast.
    pub persistent: bool,
    /// Whether stores are marked as not to be read again soon.
    pub streaming: bool,
}

/// What a block computes of outputs with a row per position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PositionsKind {
    /// All outputs of its positions.
    ///
    /// Legal always. Good when outputs share inputs with a row per position:
    /// each is read once, and so are indices. Cost: registers grow with the
    /// number of outputs, and a table of many chunks does not fit the
    /// first-level cache.
    Position,
    /// One output tensor at its positions, all positions of one tensor before
    /// the next.
    ///
    /// Legal always. Good for several outputs that are copies: blocks that run
    /// together write one stretch of memory and read one chunk of the table,
    /// which stays in the first-level cache. Cost: what outputs share, indices
    /// too, is read and checked once per output.
    Output,
}

impl PositionsSchedule {
    pub(crate) const KEYS: [&'static str; 6] = ["kind", "threads", "positions", "resident", "persistent", "streaming"];

    pub(super) fn check(&self) -> Result<(), ScheduleFault> {
        let PositionsSchedule { kind: _, threads, positions, resident, persistent: _, streaming: _ } = *self;
        check_threads(threads)?;
        if !positions.is_power_of_two() || positions > MAX_POSITIONS {
            return Err(field("positions", positions, "it is no power of two up to 16"));
        }
        check_resident(resident, threads)
    }
}

/// First what was measured fastest (H200, H = 5376, bf16; µs at S = 32768, one position a block):
///
/// - copies into several tensors go tensor after tensor: 458 against 488 position by
///   position, the plain write 456. All else goes by whole positions, which read once what
///   outputs share;
/// - 192 threads, 458, where 128 take 467 and 256 take 468;
/// - stores stream: without that, outputs push tables out of the caches where they miss the
///   first level, 465;
/// - several positions where indices are checked, since the chain from index to table to output
///   is longer than from a plan's row.
pub(super) fn space(kernel: &Kernel, spec: &Spec) -> Vec<PositionsSchedule> {
    let kinds = match copies_into_several(kernel) {
        true => [PositionsKind::Output, PositionsKind::Position],
        false => [PositionsKind::Position, PositionsKind::Output],
    };
    // No more threads than a row has accesses.
    let accesses = spec.hidden.div_ceil(lanes::positions(kernel, spec).into());
    let needed = accesses.next_multiple_of(32).min(256) as u32;
    let mut threads = [192, 128, 96, 224, 256].map(|threads: u32| threads.min(needed)).to_vec();
    let mut seen = HashSet::new();
    threads.retain(|threads| seen.insert(*threads));
    let fields = Fields {
        threads: words(kernel, "threads", &threads),
        positions: words(kernel, "positions", if spec.planned { &[1, 2, 4, 8, 16] } else { &[4, 2, 8, 1, 16] }),
        resident: words(kernel, "resident", &[]),
        persistent: words(kernel, "persistent", &[false, true]),
        streaming: words(kernel, "streaming", &[true, false]),
    };
    let mut space = fields.around_the_first(kinds[0], true);
    space.extend(fields.around_the_first(kinds[1], false));
    let mut seen = HashSet::new();
    space.retain(|schedule| seen.insert(*schedule));
    space
}

/// The values of each field, the most promising first.
struct Fields {
    threads: Vec<u32>,
    positions: Vec<u32>,
    /// None: what [`RESIDENT_THREADS`] make, as many as fit, and half way between.
    resident: Vec<u32>,
    persistent: Vec<bool>,
    streaming: Vec<bool>,
}

impl Fields {
    /// The first of everything, and what differs from it in one field; with `pairs` also in two that
    /// belong together: how much a block has to do, and how many blocks there are.
    fn around_the_first(&self, kind: PositionsKind, pairs: bool) -> Vec<PositionsSchedule> {
        let (Some(&threads), Some(&positions), Some(&persistent), Some(&streaming)) =
            (self.threads.first(), self.positions.first(), self.persistent.first(), self.streaming.first())
        else {
            return Vec::new();
        };
        let of = |threads, positions, resident, persistent, streaming| PositionsSchedule {
            kind,
            threads,
            positions,
            resident,
            persistent,
            streaming,
        };
        let [fit, others @ ..] = &self.residents(threads)[..] else { return Vec::new() };
        let shape = |threads, positions| of(threads, positions, self.residents(threads)[0], persistent, streaming);
        let mut space = vec![shape(threads, positions)];
        space.extend(self.threads.iter().map(|&threads| shape(threads, positions)));
        space.extend(self.positions.iter().map(|&positions| shape(threads, positions)));
        space.extend(self.streaming.iter().map(|&streaming| of(threads, positions, *fit, persistent, streaming)));
        for &persistent in &self.persistent {
            let dealt = |positions, resident| of(threads, positions, resident, persistent, streaming);
            space.push(dealt(positions, *fit));
            if pairs || persistent == self.persistent[0] {
                space.extend(others.iter().map(|&resident| dealt(positions, resident)));
            }
            if pairs {
                space.extend(self.positions.iter().map(|&positions| dealt(positions, *fit)));
            }
        }
        if pairs {
            for &threads in self.threads.iter().take(3) {
                space.extend(self.positions.iter().take(3).map(|&positions| shape(threads, positions)));
            }
        }
        space
    }

    /// For blocks of so many threads; at least one.
    fn residents(&self, threads: u32) -> Vec<u32> {
        if !self.resident.is_empty() {
            return self.resident.clone();
        }
        let of = |all: u32| (all / threads).clamp(1, MOST_BLOCKS);
        let (fit, most) = (of(RESIDENT_THREADS), of(MOST_THREADS));
        vec![fit, most, fit.midpoint(most)]
    }
}

fn copies_into_several(kernel: &Kernel) -> bool {
    let rows = kernel.outputs.iter().filter(|output| matches!(output.kind, OutputKind::Rows(_)));
    let values: Vec<_> = rows.flat_map(|output| &output.values).collect();
    values.len() > 1
        && values.iter().all(|value| matches!(kernel.node(**value).op, Op::Read { .. } | Op::Gather { .. }))
}

impl PositionsKind {
    /// Every kind.
    pub const ALL: [PositionsKind; 2] = [PositionsKind::Position, PositionsKind::Output];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PositionsKind::Position => "position",
            PositionsKind::Output => "output",
        }
    }
}

impl fmt::Display for PositionsSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PositionsSchedule { kind, threads, positions, resident, persistent, streaming } = self;
        write!(
            f,
            "kind = {}, threads = {threads}, positions = {positions}, resident = {resident}, \
             persistent = {persistent}, streaming = {streaming}",
            kind.name()
        )
    }
}
