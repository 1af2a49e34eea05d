//! Scratch memory that calls use again.

use std::sync::Arc;

use crate::device::{Lane, Stream};
use crate::engine::{DeviceMemory, Queue};
use crate::error::Error;

/// Scratch memory of one stream. A call that needs more than it has makes it
/// larger; with enough of it no call allocates. Its content means nothing.
pub struct Workspace {
    stream: Stream,
    memory: Option<DeviceMemory>,
}

impl Workspace {
    /// An empty one.
    pub fn new(stream: &Stream) -> Workspace {
        Workspace { stream: stream.clone(), memory: None }
    }

    /// Bytes it holds now.
    pub fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, DeviceMemory::bytes)
    }

    /// Makes it hold at least `bytes` bytes. On the CPU it stays empty.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the device reports.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        if let Lane::Accelerator(queue) = &self.stream.0.clone() {
            self.memory(queue, bytes)?;
        }
        Ok(())
    }

    /// Sets every byte: a NaN pattern (0xFF) that no call may depend on.
    ///
    /// # Errors
    /// What the device reports.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        if let (Lane::Accelerator(queue), Some(memory)) = (&self.stream.0, &mut self.memory) {
            memory.fill(queue, 0, byte, memory.bytes())?;
        }
        Ok(())
    }

    pub(crate) fn belongs_to(&self, stream: &Stream) -> bool {
        match (&self.stream.0, &stream.0) {
            (Lane::Cpu(_), Lane::Cpu(_)) => true,
            (Lane::Accelerator(own), Lane::Accelerator(other)) => Arc::ptr_eq(own, other),
            (Lane::Cpu(_), Lane::Accelerator(_)) | (Lane::Accelerator(_), Lane::Cpu(_)) => false,
        }
    }

    /// At least `bytes` bytes for work of `queue`, which must be its own.
    pub(crate) fn memory(&mut self, queue: &Arc<Queue>, bytes: u64) -> Result<&mut DeviceMemory, Error> {
        let enough = self.memory.take().filter(|memory| memory.bytes() >= bytes);
        Ok(self.memory.insert(match enough {
            Some(memory) => memory,
            None => DeviceMemory::allocate(queue, bytes)?,
        }))
    }
}
