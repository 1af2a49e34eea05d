//! How many blocks a multiprocessor can hold, by the registers that a thread needs.

use super::super::{Context, MOST_BLOCKS, MOST_THREADS};
use super::group;
use crate::ir::Verified;
use crate::spec::Spec;

/// Registers of a multiprocessor on every architecture served, and how many a thread gets at a time.
const REGISTERS: u32 = 1 << 16;
const REGISTER_UNIT: u32 = 8;

/// Registers for pointers, positions and counters.
const OTHER_REGISTERS: u32 = 32;

/// Blocks of `threads` that leave each thread registers for its loads in flight and its sums.
/// Asked for nothing, the compiler aims at as many threads as fit and gives up loads in flight,
/// or spills, for it; asked for one block it takes registers that other blocks need.
pub(crate) fn resident(kernel: &Verified, spec: &Spec, threads: u32, columns: u32, unroll: u32) -> u32 {
    let context = Context::new(kernel, spec);
    let registers = |bytes: u32| bytes.div_ceil(4);
    let groups = group::groups(&context);
    let loads = groups.iter().flat_map(|group| &group.leaves).map(|leaves| {
        let each = leaves.iter().map(|(_, all)| registers(context.leaf_dtype(all[0]).bytes() * columns));
        each.sum::<u32>() * unroll
    });
    let sums = registers(kernel.order.accumulate.bytes() * columns);
    let needed = (loads.max().unwrap_or(0) + sums + OTHER_REGISTERS).next_multiple_of(REGISTER_UNIT);
    (REGISTERS / (needed * threads)).min(MOST_THREADS / threads).clamp(1, MOST_BLOCKS)
}
