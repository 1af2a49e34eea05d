//! The memory of an emulated device: host memory with guards around it.

#![expect(unsafe_code, reason = "memory of a device is raw addresses")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::fault::Fault;
use crate::error::Error;

/// Alignment of an allocation in bytes, as the CUDA driver gives it; also the size of a guard.
const ALIGN: usize = 256;
/// What fresh memory holds: NaN in every float type, an index out of every bound.
const POISON: u8 = 0xFF;
/// Allocations from this size on hold zeros instead, which the system gives without touching
/// memory: offsets beyond 32 bits are tested in buffers that are mostly never touched.
const SPARSE: u64 = 1 << 30;
/// What guards hold.
const GUARD: u8 = 0xA5;

/// All allocations of one device. Dropping it frees them.
#[derive(Default)]
pub(super) struct Heap {
    /// By address.
    allocations: Mutex<BTreeMap<u64, Allocation>>,
}

/// Guard, `bytes` bytes, guard.
struct Allocation {
    bytes: u64,
    /// What the system gave, and for which layout.
    base: u64,
    layout: Layout,
}

impl Allocation {
    /// Its address and itself, poisoned below `SPARSE`; `None` if there is no such memory.
    fn new(bytes: u64) -> Option<(u64, Allocation)> {
        let sparse = bytes >= SPARSE;
        let guarded = usize::try_from(bytes).ok()?.checked_add(2 * ALIGN)?;
        // Rust clears zeroed memory itself, touching all of it, where more alignment than the
        // system's is asked for: a sparse allocation finds its aligned start inside a larger one.
        let (size, align) = if sparse { (guarded.checked_add(ALIGN)?, 16) } else { (guarded, ALIGN) };
        let layout = Layout::from_size_align(size, align).ok()?;
        // SAFETY: the layout is never of size 0, having two guards.
        let base = unsafe { if sparse { alloc_zeroed(layout) } else { alloc(layout) } };
        if base.is_null() {
            return None;
        }
        let front = base.align_offset(ALIGN);
        let inside = guarded - 2 * ALIGN;
        // SAFETY: the three parts lie in the allocation, which is ours alone; only a sparse one
        // is not aligned, and has the room.
        unsafe {
            let start = base.add(front);
            start.write_bytes(GUARD, ALIGN);
            if !sparse {
                start.add(ALIGN).write_bytes(POISON, inside);
            }
            start.add(ALIGN + inside).write_bytes(GUARD, ALIGN);
        }
        let base = base as u64;
        Some((base + (front + ALIGN) as u64, Allocation { bytes, base, layout }))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `Allocation::new` made it with this layout, and nothing else frees it.
        unsafe { dealloc(self.base as *mut u8, self.layout) };
    }
}

impl Heap {
    /// Address of `bytes` bytes, poisoned below 1 GiB; `None` if there is no such memory.
    pub(super) fn allocate(&self, bytes: u64) -> Option<u64> {
        let (address, allocation) = Allocation::new(bytes)?;
        self.lock().insert(address, allocation);
        Some(address)
    }

    /// Frees what [`Heap::allocate`] gave; any other address is ignored.
    pub(super) fn free(&self, address: u64) {
        self.lock().remove(&address);
    }

    /// All allocations, ascending.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        self.lock().iter().map(|(&address, allocation)| address..address + allocation.bytes).collect()
    }

    /// Whether `bytes` bytes at `address` lie in one allocation.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let allocations = self.lock();
        let Some((&begin, &Allocation { bytes: size, .. })) = allocations.range(..=address).next_back() else {
            return false;
        };
        let offset = address - begin;
        offset <= size && bytes <= size - offset
    }

    /// Whether all guards are as they were; `kernel` is blamed if not.
    pub(super) fn check_guards(&self, kernel: &str) -> Result<(), Error> {
        for (&address, &Allocation { bytes, .. }) in self.lock().iter() {
            for (before, begin) in [(true, address - ALIGN as u64), (false, address + bytes)] {
                // SAFETY: both guards belong to the allocation, which the lock keeps alive.
                let guard = unsafe { std::slice::from_raw_parts(begin as *const u8, ALIGN) };
                if let Some(at) = guard.iter().position(|&byte| byte != GUARD) {
                    let distance = if before { ALIGN - at } else { at + 1 } as u64;
                    let fault = Fault::Overrun { bytes, distance, before };
                    return Err(Error::Emulation { kernel: kernel.to_owned(), at: None, fault });
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Allocation>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
