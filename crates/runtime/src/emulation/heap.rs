//! The memory of an emulated device: host memory with guards around it.

#![expect(unsafe_code, reason = "memory of a device is raw addresses")]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::fault::Fault;
use crate::error::Error;

/// Alignment of an allocation in bytes, as the CUDA driver gives it; also the size of a guard.
const ALIGN: usize = 256;
/// What fresh memory holds: NaN in every float type, an index out of every bound.
const POISON: u8 = 0xFF;
/// What guards hold.
const GUARD: u8 = 0xA5;

/// All allocations of one device. Dropping it frees them.
#[derive(Default)]
pub(super) struct Heap {
    /// Size in bytes by address.
    allocations: Mutex<BTreeMap<u64, u64>>,
}

fn layout(bytes: u64) -> Option<Layout> {
    let whole = usize::try_from(bytes).ok()?.checked_add(2 * ALIGN)?;
    Layout::from_size_align(whole, ALIGN).ok()
}

impl Heap {
    /// Address of `bytes` bytes, poisoned; `None` if there is no such memory.
    pub(super) fn allocate(&self, bytes: u64) -> Option<u64> {
        let layout = layout(bytes)?;
        // SAFETY: the layout is never of size 0, having two guards.
        let base = unsafe { alloc(layout) };
        if base.is_null() {
            return None;
        }
        let (front, behind) = (ALIGN, layout.size() - ALIGN);
        // SAFETY: the three parts are the allocation, which is ours alone.
        unsafe {
            base.write_bytes(GUARD, front);
            base.add(front).write_bytes(POISON, behind - front);
            base.add(behind).write_bytes(GUARD, ALIGN);
        }
        let address = base as u64 + ALIGN as u64;
        self.lock().insert(address, bytes);
        Some(address)
    }

    /// Frees what [`Heap::allocate`] gave; any other address is ignored.
    pub(super) fn free(&self, address: u64) {
        if let Some(bytes) = self.lock().remove(&address) {
            release(address, bytes);
        }
    }

    /// All allocations, ascending.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        self.lock().iter().map(|(&address, &bytes)| address..address + bytes).collect()
    }

    /// Whether `bytes` bytes at `address` lie in one allocation.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let allocations = self.lock();
        let Some((&begin, &size)) = allocations.range(..=address).next_back() else {
            return false;
        };
        let offset = address - begin;
        offset <= size && bytes <= size - offset
    }

    /// Whether all guards are as they were; `kernel` is blamed if not.
    pub(super) fn check_guards(&self, kernel: &str) -> Result<(), Error> {
        for (&address, &bytes) in self.lock().iter() {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn release(address: u64, bytes: u64) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: `Heap::allocate` made it with this layout, `ALIGN` bytes before `address`.
        unsafe { dealloc((address - ALIGN as u64) as *mut u8, layout) };
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for (&address, &bytes) in self.lock().iter() {
            release(address, bytes);
        }
    }
}
