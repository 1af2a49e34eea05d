//! The emulation as a device.

#![expect(unsafe_code, reason = "memory of a device is raw addresses")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowloom_codegen::{Arch, Source};

use super::emulator::{Emulator, Function};
use super::graph::{Graphs, Work};
use super::heap::Heap;
use crate::accelerator::Accelerator;
use crate::error::Error;

/// Opens an emulated device; blocks and threads are interleaved as `seed` says.
///
/// # Errors
/// [`Error::NoCompiler`] without a C++ compiler.
pub(crate) fn open(seed: u64) -> Result<Box<dyn Accelerator>, Error> {
    /// Devices opened so far.
    static OPENED: AtomicU64 = AtomicU64::new(0);
    Ok(Box::new(Emulated {
        ordinal: OPENED.fetch_add(1, Ordering::Relaxed),
        emulator: Emulator::new(seed)?,
        heap: Heap::default(),
        functions: Mutex::default(),
        streams: AtomicU64::new(FIRST_STREAM),
        graphs: Graphs::default(),
        running: Mutex::default(),
    }))
}

/// CUDA gives smaller numbers a meaning.
const FIRST_STREAM: u64 = 16;

/// Host memory and compiled bodies. Work is done when a call returns.
struct Emulated {
    ordinal: u64,
    emulator: Emulator,
    heap: Heap,
    /// A function's number is its place here.
    functions: Mutex<Vec<Function>>,
    /// Number of the next stream.
    streams: AtomicU64,
    graphs: Graphs,
    /// Held while memory is touched: a graph may run while another thread copies.
    running: Mutex<()>,
}

impl Emulated {
    /// The last line before raw addresses.
    fn check(&self, address: u64, bytes: u64) {
        assert!(self.heap.holds(address, bytes), "{bytes} bytes at {address:#x} are in no allocation");
    }

    fn running(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a piece of work.
    ///
    /// # Safety
    /// As the method of [`Accelerator`] that gave it.
    unsafe fn run(&self, work: &Work) -> Result<(), Error> {
        let _running = self.running();
        match work {
            &Work::Copy { to, from, bytes } => {
                self.check(to, bytes);
                self.check(from, bytes);
                // SAFETY: both ranges are allocated; the caller says that they do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) };
                Ok(())
            }
            &Work::Fill { address, byte, bytes } => {
                self.check(address, bytes);
                // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
                unsafe { std::ptr::write_bytes(address as *mut u8, byte, bytes as usize) };
                Ok(())
            }
            Work::Launch { function, grid, threads, args } => {
                let functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
                let function = functions[*function as usize].clone();
                drop(functions);
                assert_eq!(*threads, function.entry.threads, "threads of {}", function.entry.name);
                // SAFETY: the caller says that the arguments are what the entry's parameters say; the
                // ranges are those of all allocations now; generated bodies use primitives only.
                unsafe { self.emulator.launch(&function, u64::from(*grid), args, &self.heap.ranges()) }?;
                self.heap.check_guards(&function.entry.name)
            }
        }
    }
}

impl Accelerator for Emulated {
    fn name(&self) -> String {
        format!("emulated:{}", self.ordinal)
    }

    fn product(&self) -> String {
        "emulated".to_owned()
    }

    fn arch(&self) -> Arch {
        Arch::SM_90
    }

    /// Few: blocks that take all the work take several pieces of it each.
    fn multiprocessors(&self) -> u32 {
        2
    }

    /// The host's.
    fn free_bytes(&self, _stream: u64) -> Result<Option<u64>, Error> {
        Ok(crate::host::free_memory_bytes())
    }

    fn open_stream(&self) -> Result<u64, Error> {
        Ok(self.streams.fetch_add(1, Ordering::Relaxed))
    }

    fn allocate(&self, _stream: u64, bytes: u64) -> Result<u64, Error> {
        self.heap.allocate(bytes).ok_or_else(|| Error::OutOfMemory { device: self.name(), bytes })
    }

    unsafe fn free(&self, _stream: u64, address: u64) {
        self.heap.free(address);
    }

    unsafe fn upload(&self, _stream: u64, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let _running = self.running();
        self.check(address, bytes.len() as u64);
        // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn download(&self, _stream: u64, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let _running = self.running();
        self.check(address, bytes.len() as u64);
        // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, stream: u64, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: the caller's word.
        self.graphs.record(stream, Work::Copy { to, from, bytes }).map_or(Ok(()), |work| unsafe { self.run(&work) })
    }

    unsafe fn fill(&self, stream: u64, address: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        // SAFETY: the caller's word.
        self.graphs
            .record(stream, Work::Fill { address, byte, bytes })
            .map_or(Ok(()), |work| unsafe { self.run(&work) })
    }

    fn allocate_words(&self, count: u64) -> Result<u64, Error> {
        self.allocate(0, count * 8)
    }

    unsafe fn download_later(&self, stream: u64, address: u64, word: u64) -> Result<(), Error> {
        // SAFETY: the caller's word; words of the host are memory like the device's.
        unsafe { self.copy(stream, word, address, 8) }
    }

    fn prepare(&self, sources: &[&Source]) -> Result<(), Error> {
        self.emulator.compile(sources).map(drop)
    }

    fn load(&self, source: &Source) -> Result<Vec<u64>, Error> {
        let loaded = self.emulator.compile(&[source])?.remove(0);
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let first = functions.len() as u64;
        functions.extend(loaded);
        Ok((first..functions.len() as u64).collect())
    }

    unsafe fn launch(
        &self,
        stream: u64,
        function: u64,
        (grid, threads): (u32, u32),
        _early: bool,
        args: &[u64],
    ) -> Result<(), Error> {
        let work = Work::Launch { function, grid, threads, args: args.to_vec() };
        // SAFETY: the caller's word.
        self.graphs.record(stream, work).map_or(Ok(()), |work| unsafe { self.run(&work) })
    }

    fn begin_capture(&self, stream: u64) -> Result<(), Error> {
        self.graphs.begin(stream);
        Ok(())
    }

    fn end_capture(&self, stream: u64) -> Result<u64, Error> {
        Ok(self.graphs.end(stream))
    }

    fn is_captured(&self, stream: u64) -> Result<bool, Error> {
        Ok(self.graphs.is_captured(stream))
    }

    unsafe fn launch_graph(&self, _stream: u64, graph: u64) -> Result<(), Error> {
        // SAFETY: the caller's word, for each piece.
        self.graphs.work(graph).iter().try_for_each(|work| unsafe { self.run(work) })
    }

    unsafe fn release_graph(&self, graph: u64) {
        self.graphs.release(graph);
    }

    fn synchronize(&self, _stream: u64) -> Result<(), Error> {
        Ok(())
    }
}
