//! Scratch memory that calls use again.
#![expect(unsafe_code, reason = "an address means what its owner says")]

use std::sync::Arc;

use crate::engine::{DeviceMemory, Region, Submission, Use};
use crate::error::Error;
use crate::launch::SCRATCH_ALIGN;
use crate::stream::{Lane, Stream};

/// Scratch memory of one stream, for calls that write into given tensors: they never
/// make it larger. Its content means nothing. How much a call needs, it says itself
/// (`forward_workspace_bytes`, `backward_workspace_bytes`, [`crate::workspace_bytes`]);
/// on the CPU that is nothing.
pub struct Workspace {
    stream: Stream,
    memory: Memory,
}

enum Memory {
    None,
    Owned(Arc<DeviceMemory>),
    /// A framework's, for whose order its owner cares.
    Lent {
        address: u64,
        bytes: u64,
    },
}

impl Workspace {
    /// An empty one.
    pub fn new(stream: &Stream) -> Workspace {
        Workspace { stream: stream.clone(), memory: Memory::None }
    }

    /// One of `bytes` bytes.
    ///
    /// # Errors
    /// As [`Workspace::reserve`].
    pub fn with_bytes(stream: &Stream, bytes: u64) -> Result<Workspace, Error> {
        let mut workspace = Workspace::new(stream);
        workspace.reserve(bytes)?;
        Ok(workspace)
    }

    /// `bytes` bytes at `address` in the memory of the stream's device, which another framework owns.
    /// On the CPU, where calls need none, and for 0 bytes it is empty, whatever the address.
    ///
    /// # Errors
    /// [`Error::Misaligned`] when the address is null or no multiple of 256, as allocations of a driver are.
    ///
    /// # Safety
    /// As long as any work queued with the workspace or any [`crate::Graph`] captured with it can run,
    /// the memory is allocated on the stream's device, and nothing else reads or writes it but work
    /// that the caller has put in order with the stream.
    pub unsafe fn from_raw(stream: &Stream, address: u64, bytes: u64) -> Result<Workspace, Error> {
        let mut workspace = Workspace::new(stream);
        if bytes == 0 || matches!(stream.0, Lane::Cpu(_)) {
            return Ok(workspace);
        }
        if address == 0 || !address.is_multiple_of(SCRATCH_ALIGN) {
            return Err(Error::Misaligned { argument: "the workspace".to_owned(), address, of: SCRATCH_ALIGN });
        }
        workspace.memory = Memory::Lent { address, bytes };
        Ok(workspace)
    }

    /// Bytes it holds now.
    pub fn bytes(&self) -> u64 {
        match &self.memory {
            Memory::None => 0,
            Memory::Owned(memory) => memory.bytes(),
            Memory::Lent { bytes, .. } => *bytes,
        }
    }

    /// Makes it hold at least `bytes` bytes, which are then its own. On the CPU it stays empty. A graph
    /// that was captured with it keeps what it had.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Captured`]; what the device reports.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        if let Lane::Accelerator(queue) = &self.stream.0
            && bytes > self.bytes()
        {
            // Refused, it keeps what it has.
            queue.refuse_capture("allocating memory")?;
            // The old memory goes first: both at once need not fit.
            self.memory = Memory::None;
            self.memory = Memory::Owned(DeviceMemory::allocate(queue, bytes)?);
        }
        Ok(())
    }

    /// Sets every byte: a NaN pattern (0xFF) that no call may depend on.
    ///
    /// # Errors
    /// What the device reports.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        self.fill_part(0, self.bytes(), byte)
    }

    /// Sets every byte of a part that it holds.
    pub(crate) fn fill_part(&mut self, start: u64, bytes: u64, byte: u8) -> Result<(), Error> {
        match (&self.stream.0, self.all()) {
            (Lane::Accelerator(queue), Some(region)) => region.fill(queue, start, byte, bytes),
            (Lane::Accelerator(_) | Lane::Cpu(_), _) => Ok(()),
        }
    }

    pub(crate) fn belongs_to(&self, stream: &Stream) -> bool {
        self.stream.is(stream)
    }

    /// Its memory for a submission to its stream, if it has `bytes` bytes.
    pub(crate) fn region(&mut self, queue: &Submission<'_>, bytes: u64) -> Result<Option<Region<'_>>, Error> {
        let Some(region) = self.all().filter(|region| region.bytes() >= bytes) else { return Ok(None) };
        region.join(queue, Use::Write)?;
        Ok(Some(region))
    }

    fn all(&self) -> Option<Region<'_>> {
        match (&self.memory, &self.stream.0) {
            (Memory::Owned(memory), _) => Some(memory.region()),
            (Memory::Lent { address, bytes }, Lane::Accelerator(queue)) => {
                Some(Region::borrowed(&queue.engine, *address, *bytes))
            }
            (Memory::None, _) | (Memory::Lent { .. }, Lane::Cpu(_)) => None,
        }
    }
}
