//! Memory, and the order of its uses by several streams.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use super::{Engine, Queue, Submission};
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
///
/// A user is forgotten when a write has waited for it, but never while one of its
/// submissions is under way: of two threads that use parts of one allocation, either may
/// queue its work after the other has joined.
pub(crate) struct DeviceMemory {
    queue: Arc<Queue>,
    address: u64,
    bytes: u64,
    uses: Mutex<Uses>,
}

/// Who must be waited for.
#[derive(Default)]
struct Uses {
    /// The last that wrote, and those before whose submissions it could not wait for; at first the
    /// stream it was allocated on.
    writers: SmallVec<[Arc<Queue>; 1]>,
    /// Others that have read since.
    readers: Vec<Reader>,
}

/// Readers from which on those whose work is done are forgotten.
const MANY_READERS: usize = 16;

struct Reader {
    queue: Arc<Queue>,
    /// Whether it comes after all that the writers have queued.
    ordered: bool,
}

impl Uses {
    fn streams(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.readers.iter().map(|reader| &reader.queue).chain(&self.writers)
    }

    /// Whether no other stream has written.
    fn is_written_by(&self, queue: &Queue) -> bool {
        self.writers.iter().all(|writer| writer.is(queue))
    }

    fn reader(&mut self, queue: &Arc<Queue>) -> &mut Reader {
        let at = self.readers.iter().position(|reader| reader.queue.is(queue)).unwrap_or_else(|| {
            // A table that lives long is read by many streams that do not.
            if self.readers.len() >= MANY_READERS {
                self.readers.retain(|reader| !reader.queue.is_idle());
            }
            self.readers.push(Reader { queue: queue.clone(), ordered: false });
            self.readers.len() - 1
        });
        &mut self.readers[at]
    }

    fn read(&mut self, queue: &Submission<'_>) -> Result<(), Error> {
        if self.is_written_by(queue) || self.reader(queue).ordered {
            return Ok(());
        }
        let mut ordered = true;
        for writer in self.writers.iter().filter(|writer| !writer.is(queue)) {
            ordered &= waited_for_all(queue, writer)?;
        }
        self.reader(queue).ordered = ordered;
        Ok(())
    }

    fn write(&mut self, queue: &Submission<'_>) -> Result<(), Error> {
        if self.readers.is_empty() && self.is_written_by(queue) {
            return Ok(());
        }
        let mut left = Uses::default();
        left.writers.push(Arc::clone(queue));
        for writer in self.writers.iter().filter(|writer| !writer.is(queue)) {
            if !waited_for_all(queue, writer)? {
                left.writers.push(writer.clone());
            }
        }
        for Reader { queue: reader, .. } in self.readers.iter().filter(|reader| !reader.queue.is(queue)) {
            if !waited_for_all(queue, reader)? {
                left.readers.push(Reader { queue: reader.clone(), ordered: false });
            }
        }
        *self = left;
        Ok(())
    }
}

/// Waits for another stream. Whether that is for all that it has submitted.
fn waited_for_all(queue: &Submission<'_>, other: &Arc<Queue>) -> Result<bool, Error> {
    let settled = other.is_settled();
    queue.wait_for(other)?;
    Ok(settled)
}

impl DeviceMemory {
    /// Content unspecified. 0 bytes are served like 1.
    pub(crate) fn allocate(queue: &Arc<Queue>, bytes: u64) -> Result<Arc<DeviceMemory>, Error> {
        let _submission = queue.submit_uncaptured("allocating memory")?;
        queue.engine.release_parked();
        let address = queue.engine.accelerator.allocate(queue.raw, bytes.max(1))?;
        let mut uses = Uses::default();
        uses.writers.push(queue.clone());
        Ok(Arc::new(DeviceMemory { queue: queue.clone(), address, bytes, uses: Mutex::new(uses) }))
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

    /// Puts a submission in order with what other streams have queued on it until now.
    pub(super) fn join(self: &Arc<Self>, queue: &Submission<'_>, how: Use) -> Result<(), Error> {
        let mut uses = lock(&self.uses);
        match how {
            Use::Read => uses.read(queue)?,
            Use::Write => uses.write(queue)?,
        }
        drop(uses);
        queue.note(self, how);
        Ok(())
    }

    /// A read of content that is complete and never changes: no waiting.
    fn share(self: &Arc<Self>, queue: &Submission<'_>) {
        let mut uses = lock(&self.uses);
        if !uses.is_written_by(queue) {
            uses.reader(queue);
        }
        drop(uses);
        queue.note(self, Use::Read);
    }

    /// Frees it behind every use. Nobody can submit another.
    fn free(&self, uses: &Uses) -> Result<(), Error> {
        let queue = self.queue.submit_uncaptured("freeing memory")?;
        for user in uses.streams().filter(|user| !user.is(&queue)) {
            queue.wait_for(user)?;
        }
        // SAFETY: nothing else holds the memory, and its stream now comes after every other use.
        unsafe { queue.engine.accelerator.free(queue.raw, self.address) };
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let uses = std::mem::take(self.uses.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner));
        match self.free(&uses) {
            Ok(()) => {}
            Err(Error::Captured { .. }) => {
                let (queue, address, bytes) = (self.queue.clone(), self.address, self.bytes);
                let parked = DeviceMemory { queue, address, bytes, uses: Mutex::new(uses) };
                lock(&self.queue.engine.parked).push(parked);
            }
            // A context that can no longer order its streams has failed for good: keep the memory.
            Err(_) => {}
        }
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
    pub(crate) fn join(&self, queue: &Submission<'_>, how: Use) -> Result<(), Error> {
        self.owner.map_or(Ok(()), |owner| owner.join(queue, how))
    }

    /// See [`DeviceMemory::share`].
    pub(crate) fn share(&self, queue: &Submission<'_>) {
        if let Some(owner) = self.owner {
            owner.share(queue);
        }
    }

    /// Copies into it. On return `bytes` may change.
    pub(crate) fn upload(&self, queue: &Arc<Queue>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        let queue = queue.submit_uncaptured("copying to the device")?;
        self.join(&queue, Use::Write)?;
        // SAFETY: the memory is alive as long as the region and `bound` has checked the range.
        unsafe { queue.engine.accelerator.upload(queue.raw, self.address + offset, bytes) }
    }

    /// Copies out of it, and waits.
    pub(crate) fn download(&self, queue: &Arc<Queue>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        let queue = queue.submit_uncaptured("copying from the device")?;
        self.join(&queue, Use::Read)?;
        // SAFETY: the memory is alive as long as the region and `bound` has checked the range.
        unsafe { queue.engine.accelerator.download(queue.raw, self.address + offset, bytes) }
    }

    pub(crate) fn fill(&self, queue: &Arc<Queue>, offset: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        self.bound(offset, bytes);
        if bytes == 0 {
            // Drivers differ on filling nothing.
            return Ok(());
        }
        let queue = queue.submit()?;
        self.join(&queue, Use::Write)?;
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
        let queue = queue.submit()?;
        source.join(&queue, Use::Read)?;
        self.join(&queue, Use::Write)?;
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

#[cfg(test)]
mod tests {
    use super::MANY_READERS;
    use crate::device::{Device, Place};
    use crate::once::lock;
    use crate::tensor::Tensor;

    #[test]
    fn streams_whose_reads_are_done_are_closed() {
        let device = Device::emulated(0).unwrap();
        let Place::Accelerator(engine) = &device.0 else { panic!("an accelerator") };
        let tensor = Tensor::from_slice(&device.stream().unwrap(), &[1.0_f32, 2.0], 2, 1).unwrap();
        for _ in 0..100 {
            assert_eq!(tensor.to_vec(&device.stream().unwrap()).unwrap(), [1.0, 2.0]);
        }
        let open = lock(&engine.queues).values().filter(|queue| queue.strong_count() > 0).count();
        assert!(open <= MANY_READERS + 2, "{open} streams are open");
    }
}
