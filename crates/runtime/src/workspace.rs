//! Scratch memory that calls use again.

use std::sync::Arc;

use crate::engine::{DeviceMemory, Region, Submission, Use};
use crate::error::Error;
use crate::stream::{Lane, Stream};

/// Scratch memory of one stream, for calls that write into given tensors: they never
/// make it larger. Its content means nothing. How much a call needs, it says itself
/// (`forward_workspace_bytes`, `backward_workspace_bytes`, [`crate::workspace_bytes`]);
/// on the CPU that is nothing.
pub struct Workspace {
    stream: Stream,
    memory: Option<Arc<DeviceMemory>>,
}

impl Workspace {
    /// An empty one.
    pub fn new(stream: &Stream) -> Workspace {
        Workspace { stream: stream.clone(), memory: None }
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

    /// Bytes it holds now.
    pub fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.bytes())
    }

    /// Makes it hold at least `bytes` bytes. On the CPU it stays empty. A graph that
    /// was captured with it keeps what it had.
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
            self.memory = None;
            self.memory = Some(DeviceMemory::allocate(queue, bytes)?);
        }
        Ok(())
    }

    /// Sets every byte: a NaN pattern (0xFF) that no call may depend on.
    ///
    /// # Errors
    /// What the device reports.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        match (&self.stream.0, &self.memory) {
            (Lane::Accelerator(queue), Some(memory)) => memory.region().fill(queue, 0, byte, memory.bytes()),
            (Lane::Accelerator(_) | Lane::Cpu(_), _) => Ok(()),
        }
    }

    /// Sets every byte of a part that it holds.
    pub(crate) fn fill_part(&mut self, start: u64, bytes: u64, byte: u8) -> Result<(), Error> {
        match (&self.stream.0, &self.memory) {
            (Lane::Accelerator(queue), Some(memory)) => memory.region().fill(queue, start, byte, bytes),
            (Lane::Accelerator(_) | Lane::Cpu(_), _) => Ok(()),
        }
    }

    pub(crate) fn belongs_to(&self, stream: &Stream) -> bool {
        self.stream.is(stream)
    }

    /// Its memory for a submission to its stream, if it has `bytes` bytes.
    pub(crate) fn region(&mut self, queue: &Submission<'_>, bytes: u64) -> Result<Option<Region<'_>>, Error> {
        let Some(memory) = self.memory.as_ref().filter(|memory| memory.bytes() >= bytes) else { return Ok(None) };
        let region = memory.region();
        region.join(queue, Use::Write)?;
        Ok(Some(region))
    }
}
