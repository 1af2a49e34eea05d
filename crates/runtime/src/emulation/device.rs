//! The emulation as a device.

#![expect(unsafe_code, reason = "memory of a device is raw addresses")]

use std::sync::{Mutex, PoisonError};

use rowloom_codegen::{Arch, Source};

use super::emulator::{Emulator, Function};
use super::heap::Heap;
use crate::accelerator::Accelerator;
use crate::error::Error;

/// Opens an emulated device; blocks and threads are interleaved as `seed` says.
///
/// # Errors
/// [`Error::NoCompiler`] without a C++ compiler.
pub(crate) fn open(seed: u64) -> Result<Box<dyn Accelerator>, Error> {
    Ok(Box::new(Emulated { emulator: Emulator::new(seed)?, heap: Heap::default(), functions: Mutex::default() }))
}

/// Host memory and compiled bodies. Work is done when a call returns, so all streams are one.
struct Emulated {
    emulator: Emulator,
    heap: Heap,
    /// A function's number is its place here.
    functions: Mutex<Vec<Function>>,
}

impl Emulated {
    /// The last line before raw addresses.
    fn check(&self, address: u64, bytes: u64) {
        assert!(self.heap.holds(address, bytes), "{bytes} bytes at {address:#x} are in no allocation");
    }
}

impl Accelerator for Emulated {
    fn name(&self) -> String {
        "emulated".to_owned()
    }

    fn product(&self) -> String {
        "emulated".to_owned()
    }

    fn arch(&self) -> Arch {
        Arch::SM_90
    }

    fn allocate(&self, _stream: u64, bytes: u64) -> Result<u64, Error> {
        self.heap.allocate(bytes).ok_or_else(|| Error::OutOfMemory { device: self.name(), bytes })
    }

    unsafe fn free(&self, _stream: u64, address: u64) {
        self.heap.free(address);
    }

    unsafe fn upload(&self, _stream: u64, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check(address, bytes.len() as u64);
        // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn download(&self, _stream: u64, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.check(address, bytes.len() as u64);
        // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn copy(&self, _stream: u64, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        self.check(to, bytes);
        self.check(from, bytes);
        // SAFETY: both ranges are allocated; the caller says that they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) };
        Ok(())
    }

    unsafe fn fill(&self, _stream: u64, address: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        self.check(address, bytes);
        // SAFETY: the range is allocated, and apart from any memory that Rust borrows.
        unsafe { std::ptr::write_bytes(address as *mut u8, byte, bytes as usize) };
        Ok(())
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

    unsafe fn launch(&self, _stream: u64, function: u64, grid: u32, threads: u32, args: &[u64]) -> Result<(), Error> {
        let functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let function = functions[function as usize].clone();
        drop(functions);
        assert_eq!(threads, function.entry.threads, "threads of {}", function.entry.name);
        // SAFETY: the caller says that the arguments are what the entry's parameters say; the
        // ranges are those of all allocations now; generated bodies use primitives only.
        unsafe { self.emulator.launch(&function, u64::from(grid), args, &self.heap.ranges()) }?;
        self.heap.check_guards(&function.entry.name)
    }

    fn synchronize(&self, _stream: u64) -> Result<(), Error> {
        Ok(())
    }
}
