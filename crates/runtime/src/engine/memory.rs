//! Memory, and the order of its uses by several streams.

use std::sync::{Arc, Mutex};

use super::{Engine, Queue};
use crate::error::Error;
use crate::once::lock;

/// What a stream does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
}

/// An allocation of an accelerator, freed on the stream it was allocated on.
///
/// Streams that only read it do not wait for one another: a read waits for the
/// last write, a write and the end for everything. On one stream alone nothing
/// is ever recorded or waited for.
pub(crate) struct DeviceMemory {
    queue: Arc<Queue>,
    address: u64,
    bytes: u64,
    uses: Mutex<Uses>,
}

/// Who must be waited for.
struct Uses {
    /// The last that wrote; at first the stream it was allocated on.
    writer: Arc<Queue>,
    /// Others that have come after that write, and read.
    readers: Vec<Arc<Queue>>,
}

impl Uses {
    fn streams(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.readers.iter().chain([&self.writer])
    }
}

impl DeviceMemory {
    /// Content unspecified. 0 bytes are served like 1.
    pub(crate) fn allocate(queue: &Arc<Queue>, bytes: u64) -> Result<Arc<DeviceMemory>, Error> {
        queue.refuse_capture("allocating memory")?;
        queue.engine.release_parked();
        let address = queue.engine.accelerator.allocate(queue.raw, bytes.max(1))?;
        Ok(Arc::new(DeviceMemory::new(queue.clone(), address, bytes, queue.clone(), Vec::new())))
    }

    fn new(queue: Arc<Queue>, address: u64, bytes: u64, writer: Arc<Queue>, readers: Vec<Arc<Queue>>) -> DeviceMemory {
        DeviceMemory { queue, address, bytes, uses: Mutex::new(Uses { writer, readers }) }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.queue.engine
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All of it.
    pub(crate) fn region(self: &Arc<Self>) -> Region<'_> {
        Region { engine: self.engine(), address: self.address, bytes: self.bytes, owner: Some(self) }
    }

    /// Puts later work of `queue` in order with what other streams have queued on it until now.
    pub(super) fn join(self: &Arc<Self>, queue: &Arc<Queue>, how: Use) -> Result<(), Error> {
        let mut uses = lock(&self.uses);
        let own = uses.writer.is(queue);
        match how {
            Use::Read => {
                if !own && !uses.readers.iter().any(|reader| reader.is(queue)) {
                    queue.wait_for(&uses.writer)?;
                    uses.readers.push(queue.clone());
                }
            }
            Use::Write => {
                for other in uses.streams().filter(|other| !other.is(queue)) {
                    queue.wait_for(other)?;
                }
                if !own {
                    uses.writer = queue.clone();
                }
                uses.readers.clear();
            }
        }
        drop(uses);
        queue.note(self, how);
        Ok(())
    }

    /// A read of content that is complete and never changes: no waiting.
    fn share(self: &Arc<Self>, queue: &Arc<Queue>) {
        let mut uses = lock(&self.uses);
        if !uses.streams().any(|user| user.is(queue)) {
            uses.readers.push(queue.clone());
        }
        drop(uses);
        queue.note(self, Use::Read);
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let uses = self.uses.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if uses.streams().chain([&self.queue]).any(|queue| queue.is_captured()) {
            let (writer, readers) = (uses.writer.clone(), std::mem::take(&mut uses.readers));
            let parked = DeviceMemory::new(self.queue.clone(), self.address, self.bytes, writer, readers);
            lock(&self.queue.engine.parked).push(parked);
            return;
        }
        let mut safe = true;
        for user in uses.streams().filter(|user| !user.is(&self.queue)) {
            safe &= self.queue.wait_for(user).is_ok();
        }
        if !safe {
            // A context that can no longer order its streams has failed for good: keep the memory.
            return;
        }
        // SAFETY: nothing else holds the memory, and its stream now comes after every other use.
        unsafe { self.queue.engine.accelerator.free(self.queue.raw, self.address) }
    }
}

/// A stretch of an accelerator's memory that a view looks into. Whoever makes a
/// view to be written vouches that no other view shares its elements.
#[derive(Clone, Copy)]
pub(crate) struct Region<'a> {
    engine: &'a Arc<Engine>,
    address: u64,
    bytes: u64,
    /// `None` for a framework's memory, whose order is its owner's.
    owner: Option<&'a Arc<DeviceMemory>>,
}

impl<'a> Region<'a> {
    /// Memory that somebody else owns and orders.
    pub(crate) fn borrowed(engine: &'a Arc<Engine>, address: u64, bytes: u64) -> Region<'a> {
        Region { engine, address, bytes, owner: None }
    }

    /// Its first `at` bytes and the others.
    pub(crate) fn split_at(&self, at: u64) -> (Region<'a>, Region<'a>) {
        self.bound(at, 0);
        (Region { bytes: at, ..*self }, Region { address: self.address + at, bytes: self.bytes - at, ..*self })
    }

    /// Whether it is a framework's, of which nothing is known but the elements of one view.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner.is_none()
    }

    pub(crate) fn engine(&self) -> &'a Arc<Engine> {
        self.engine
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// See [`DeviceMemory::join`].
    pub(crate) fn join(&self, queue: &Arc<Queue>, how: Use) -> Result<(), Error> {
        self.owner.map_or(Ok(()), |owner| owner.join(queue, how))
    }

    /// See [`DeviceMemory::share`].
    pub(crate) fn share(&self, queue: &Arc<Queue>) {
        if let Some(owner) = self.owner {
            owner.share(queue);
        }
    }

    /// Copies into it. On return `bytes` may change.
    pub(crate) fn upload(&self, queue: &Arc<Queue>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        queue.refuse_capture("copying to the device")?;
        self.join(queue, Use::Write)?;
        // SAFETY: the memory is alive as long as the region and `bound` has checked the range.
        unsafe { queue.engine.accelerator.upload(queue.raw, self.address + offset, bytes) }
    }

    /// Copies out of it, and waits.
    pub(crate) fn download(&self, queue: &Arc<Queue>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        queue.refuse_capture("copying from the device")?;
        self.join(queue, Use::Read)?;
        // SAFETY: the memory is alive as long as the region and `bound` has checked the range.
        unsafe { queue.engine.accelerator.download(queue.raw, self.address + offset, bytes) }
    }

    pub(crate) fn fill(&self, queue: &Arc<Queue>, offset: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        self.bound(offset, bytes);
        if bytes == 0 {
            // Drivers differ on filling nothing.
            return Ok(());
        }
        self.join(queue, Use::Write)?;
        // SAFETY: the memory is alive as long as the region and `bound` has checked the range.
        unsafe { queue.engine.accelerator.fill(queue.raw, self.address + offset, byte, bytes) }
    }

    pub(crate) fn copy_from(
        &self,
        queue: &Arc<Queue>,
        to: u64,
        source: &Region<'_>,
        from: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        self.bound(to, bytes);
        source.bound(from, bytes);
        source.join(queue, Use::Read)?;
        self.join(queue, Use::Write)?;
        // SAFETY: both are alive, `bound` has checked the ranges, and a view to be written shares
        // no element with another.
        unsafe { queue.engine.accelerator.copy(queue.raw, self.address + to, source.address + from, bytes) }
    }

    /// Views are checked when they are made; this is the last line before raw addresses.
    fn bound(&self, offset: u64, bytes: u64) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} of {}", self.bytes);
    }
}
