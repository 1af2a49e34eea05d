//! How outputs with a row per position are computed.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use super::fault::{check_resident, check_threads, field, words};
use crate::cuda::{MOST_BLOCKS, MOST_THREADS, lanes};
use crate::ir::{Kernel, Op, OutputKind};
use crate::spec::Spec;

pub(super) const MAX_POSITIONS: u32 = 16;

/// Threads of a multiprocessor that keep enough loads and stores in flight: 64 registers each.
/// Asked for nothing, the compiler aims at as many threads as fit, with 32 registers each, and
/// spills for it.
const RESIDENT_THREADS: u32 = 1024;

/// Fewer where indices are checked, which takes some registers.
const CHECKED_THREADS: u32 = 960;

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
/// - one position a block, also where indices are checked: 463, with two 469 and with four 490.
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
        positions: words(kernel, "positions", &[1, 2, 4, 8, 16]),
        enough: if spec.planned { RESIDENT_THREADS } else { CHECKED_THREADS },
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
    /// Threads of a multiprocessor that are enough.
    enough: u32,
    /// None: what is enough; for persistent blocks also as many as fit, and half way.
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
        let shape = |threads, positions| {
            let resident = self.resident(threads);
            PositionsSchedule { kind, threads, positions, resident, persistent, streaming }
        };
        let first = shape(threads, positions);
        let mut space = vec![first];
        space.extend(self.threads.iter().map(|&threads| shape(threads, positions)));
        space.extend(self.positions.iter().map(|&positions| shape(threads, positions)));
        space.extend(self.resident.iter().map(|&resident| PositionsSchedule { resident, ..first }));
        space.extend(self.persistent.iter().map(|&persistent| PositionsSchedule { persistent, ..first }));
        space.extend(self.streaming.iter().map(|&streaming| PositionsSchedule { streaming, ..first }));
        if !pairs {
            return space;
        }
        for &threads in self.threads.iter().take(3) {
            space.extend(self.positions.iter().take(4).map(|&positions| shape(threads, positions)));
        }
        if self.persistent.contains(&true) {
            let first = PositionsSchedule { persistent: true, ..first };
            space.extend(self.positions.iter().map(|&positions| PositionsSchedule { positions, ..first }));
            let residents = self.residents(threads);
            space.extend(residents.into_iter().map(|resident| PositionsSchedule { resident, ..first }));
        }
        space
    }

    /// The first that is legal for so many threads.
    fn resident(&self, threads: u32) -> u32 {
        let residents = self.residents(threads);
        residents.iter().copied().find(|&resident| check_resident(resident, threads).is_ok()).unwrap_or(residents[0])
    }

    /// For so many threads; at least one. Of blocks that take all the work as many as fit are worth
    /// a try: of others no more run for it.
    fn residents(&self, threads: u32) -> Vec<u32> {
        if !self.resident.is_empty() {
            return self.resident.clone();
        }
        let of = |all: u32| (all / threads).clamp(1, MOST_BLOCKS);
        let (enough, most) = (of(self.enough), of(MOST_THREADS));
        vec![enough, most, enough.midpoint(most)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(schedule: PositionsSchedule, field: &str) {
        let fault = schedule.check().expect_err("it is not legal");
        assert!(matches!(&fault, ScheduleFault::Field { field: named, .. } if *named == field), "{fault}");
    }

    #[test]
    fn fields_out_of_range_are_named() {
        let legal = PositionsSchedule {
            kind: PositionsKind::Output,
            threads: 192,
            positions: 4,
            resident: 8,
            persistent: true,
            streaming: true,
        };
        legal.check().unwrap();
        refused(PositionsSchedule { threads: 100, ..legal }, "threads");
        for positions in [0, 3, 32] {
            refused(PositionsSchedule { positions, ..legal }, "positions");
        }
        for resident in [0, 9, 17] {
            refused(PositionsSchedule { resident, ..legal }, "resident");
        }
    }

    #[test]
    fn what_a_tile_allows_is_found() {
        let fields = Fields {
            threads: vec![1024, 512],
            positions: vec![16],
            enough: RESIDENT_THREADS,
            resident: vec![16, 2],
            persistent: vec![true],
            streaming: vec![false],
        };
        for pairs in [true, false] {
            let space = fields.around_the_first(PositionsKind::Position, pairs);
            let legal: Vec<_> = space.into_iter().filter(|schedule| schedule.check().is_ok()).collect();
            assert!(legal.iter().all(|schedule| (schedule.threads, schedule.resident) == (512, 2)));
            assert!(!legal.is_empty());
        }
    }
}
