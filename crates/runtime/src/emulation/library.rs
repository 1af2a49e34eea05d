//! A compiled translation unit in this process.

#![expect(unsafe_code, reason = "calls into compiled code")]

use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::fault::{Fault, ThreadId};
use crate::error::Error;

/// Several entries of several sources.
pub(super) struct Library {
    run: unsafe extern "C" fn(u32, *mut RawLaunch),
    /// The scheduler's state is the library's: one launch at a time.
    busy: Mutex<()>,
    /// Keeps the code of `run` in memory.
    _loaded: libloading::Library,
}

/// `Fault` of host.hpp.
#[repr(C)]
#[derive(Default)]
struct RawFault {
    kind: u32,
    thread: u32,
    block: u64,
    line: u32,
    other_thread: u32,
    other_line: u32,
    bytes: u32,
    address: u64,
}

/// `Range` of host.hpp.
#[repr(C)]
struct RawRange {
    begin: u64,
    end: u64,
}

/// `Launch` of host.hpp.
#[repr(C)]
struct RawLaunch {
    arguments: *const u64,
    memory: *const RawRange,
    memory_count: u64,
    blocks: u64,
    seed: u64,
    threads: u32,
    fault: RawFault,
}

/// One launch of one entry.
pub(super) struct Launch<'a> {
    /// Name of the entry.
    pub name: &'a str,
    /// Blocks of the grid, at least 1.
    pub blocks: u64,
    /// Threads of a block, at least 1.
    pub threads: u32,
    /// One value a parameter.
    pub arguments: &'a [u64],
    /// Where loads and stores may go: ascending, without overlap.
    pub memory: &'a [Range<u64>],
    /// Decides the order in which threads run.
    pub seed: u64,
}

impl Library {
    /// Loads what [`super::text::translation_unit`] became.
    pub(super) fn open(path: &Path) -> Result<Library, Error> {
        let failed =
            |error| Error::Io { doing: "loading emulated kernels".to_owned(), error: std::io::Error::other(error) };
        // SAFETY: the library was compiled from our text; loading it runs no code of its own.
        let loaded = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        // SAFETY: the text defines `rl_run` with this signature, and `RawLaunch` as its `Launch`.
        let run = unsafe { loaded.get::<unsafe extern "C" fn(u32, *mut RawLaunch)>(b"rl_run\0") };
        let run = *run.map_err(failed)?;
        Ok(Library { run, busy: Mutex::new(()), _loaded: loaded })
    }

    /// Runs an entry to its end or to the first fault.
    ///
    /// # Safety
    ///
    /// `entry` is an entry of the library and `launch.arguments` has a value for each of its
    /// parameters. Every range of `launch.memory` is allocated, and nobody else writes there
    /// meanwhile. The body accesses memory through primitives only.
    pub(super) unsafe fn run(&self, entry: u32, launch: &Launch<'_>) -> Result<(), Error> {
        let memory: Vec<RawRange> =
            launch.memory.iter().map(|range| RawRange { begin: range.start, end: range.end }).collect();
        let mut raw = RawLaunch {
            arguments: launch.arguments.as_ptr(),
            memory: memory.as_ptr(),
            memory_count: memory.len() as u64,
            blocks: launch.blocks,
            seed: launch.seed,
            threads: launch.threads,
            fault: RawFault::default(),
        };
        let guard = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `raw` and what it points to outlive the call, one launch runs at a time, and
        // the caller vouches for entry, arguments and memory.
        unsafe { (self.run)(entry, &mut raw) };
        drop(guard);
        raw.fault.result(launch.name)
    }
}

impl RawFault {
    fn result(&self, kernel: &str) -> Result<(), Error> {
        let RawFault { line, address, bytes, .. } = *self;
        // The numbers of `FaultKind` of host.hpp.
        let fault = match self.kind {
            0 => return Ok(()),
            1 => Fault::Misaligned { line, address, bytes },
            2 => Fault::LoadOutside { line, address, bytes },
            3 => Fault::StoreOutside { line, address, bytes },
            4 => Fault::BarrierSites { line, other_thread: self.other_thread, other_line: self.other_line },
            5 => Fault::BarrierEnded { line },
            6 => Fault::SharedOverrun,
            7 => Fault::Stuck,
            8 => Fault::StackOverrun,
            _ => {
                return Err(Error::OutOfMemory { device: "emulated".to_owned(), bytes: self.address });
            }
        };
        let at = Some(ThreadId { block: self.block, thread: self.thread });
        Err(Error::Emulation { kernel: kernel.to_owned(), at, fault })
    }
}
