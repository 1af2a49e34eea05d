//! Owned streams and memory of an [`Accelerator`]: the numbers of its
//! interface with their lifetimes.
#![expect(unsafe_code, reason = "the accelerator's methods trust the numbers they are given")]

use std::sync::{Arc, Mutex, PoisonError};

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::modules::Modules;

/// An accelerator and the code it has loaded.
pub(crate) struct Engine {
    pub(crate) accelerator: Box<dyn Accelerator>,
    pub(crate) modules: Modules,
}

impl Engine {
    pub(crate) fn new(accelerator: Box<dyn Accelerator>) -> Engine {
        Engine { accelerator, modules: Modules::default() }
    }

    pub(crate) fn elapsed_us(&self, start: u64, end: u64) -> Result<f64, Error> {
        // SAFETY: both events are held by `Event`s of this engine, which release them only when dropped.
        unsafe { self.accelerator.elapsed_us(start, end) }
    }

    pub(crate) fn release_event(&self, event: u64) {
        // SAFETY: called by the only owner of the event, when it is dropped.
        unsafe { self.accelerator.release_event(event) }
    }
}

/// A stream of an accelerator.
pub(crate) struct Queue {
    pub(crate) engine: Arc<Engine>,
    pub(crate) raw: u64,
}

impl Queue {
    pub(crate) fn open(engine: &Arc<Engine>) -> Result<Arc<Queue>, Error> {
        let raw = engine.accelerator.open_stream()?;
        Ok(Arc::new(Queue { engine: engine.clone(), raw }))
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.engine.accelerator.synchronize(self.raw)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: memory and events hold the queue, so nothing refers to the stream any more.
        unsafe { self.engine.accelerator.close_stream(self.raw) }
    }
}

/// Memory of an accelerator, owned by the stream it was allocated on.
pub(crate) struct DeviceMemory {
    pub(crate) queue: Arc<Queue>,
    address: u64,
    bytes: u64,
    /// Other streams that have used it: freeing, and use elsewhere, waits for them.
    users: Mutex<Vec<Arc<Queue>>>,
}

impl DeviceMemory {
    /// Content unspecified. 0 bytes are served like 1.
    pub(crate) fn allocate(queue: &Arc<Queue>, bytes: u64) -> Result<DeviceMemory, Error> {
        let address = queue.engine.accelerator.allocate(queue.raw, bytes.max(1))?;
        Ok(DeviceMemory { queue: queue.clone(), address, bytes, users: Mutex::new(Vec::new()) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lets `queue` use the memory: its later work comes after what every other
    /// stream has queued on it until now, and freeing waits for it.
    pub(crate) fn join(&self, queue: &Arc<Queue>) -> Result<(), Error> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(queue, &self.queue) && users.is_empty() {
            return Ok(());
        }
        let others = users.iter().chain([&self.queue]).filter(|user| !Arc::ptr_eq(user, queue));
        for other in others {
            queue.engine.accelerator.wait(queue.raw, other.raw)?;
        }
        Self::note(&mut users, &self.queue, queue);
        Ok(())
    }

    /// The same for content that is complete and never changes: no waiting.
    pub(crate) fn share(&self, queue: &Arc<Queue>) {
        if !Arc::ptr_eq(queue, &self.queue) {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            Self::note(&mut users, &self.queue, queue);
        }
    }

    fn note(users: &mut Vec<Arc<Queue>>, owner: &Arc<Queue>, queue: &Arc<Queue>) {
        if !Arc::ptr_eq(queue, owner) && !users.iter().any(|user| Arc::ptr_eq(user, queue)) {
            users.push(queue.clone());
        }
    }

    pub(crate) fn upload(&mut self, queue: &Arc<Queue>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        self.join(queue)?;
        // SAFETY: the memory is ours and `bound` has checked the range.
        unsafe { queue.engine.accelerator.upload(queue.raw, self.address + offset, bytes) }
    }

    pub(crate) fn download(&self, queue: &Arc<Queue>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.bound(offset, bytes.len() as u64);
        self.join(queue)?;
        // SAFETY: the memory is ours and `bound` has checked the range.
        unsafe { queue.engine.accelerator.download(queue.raw, self.address + offset, bytes) }
    }

    pub(crate) fn fill(&mut self, queue: &Arc<Queue>, offset: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        self.bound(offset, bytes);
        if bytes == 0 {
            // Drivers differ on filling nothing.
            return Ok(());
        }
        self.join(queue)?;
        // SAFETY: the memory is ours and `bound` has checked the range.
        unsafe { queue.engine.accelerator.fill(queue.raw, self.address + offset, byte, bytes) }
    }

    pub(crate) fn copy_from(
        &mut self,
        queue: &Arc<Queue>,
        to: u64,
        source: &DeviceMemory,
        from: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        self.bound(to, bytes);
        source.bound(from, bytes);
        self.join(queue)?;
        source.join(queue)?;
        // SAFETY: both are ours, `bound` has checked the ranges, and `&mut` keeps the two apart.
        unsafe { queue.engine.accelerator.copy(queue.raw, self.address + to, source.address + from, bytes) }
    }

    /// Views are checked when they are made; this is the last line before raw addresses.
    fn bound(&self, offset: u64, bytes: u64) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} of {}", self.bytes);
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let users = self.users.get_mut().unwrap_or_else(PoisonError::into_inner);
        let accelerator = &self.queue.engine.accelerator;
        let mut safe = true;
        for user in users.iter() {
            safe &= accelerator.wait(self.queue.raw, user.raw).is_ok();
        }
        if !safe {
            // A context that can no longer order its streams has failed for good: keep the memory.
            return;
        }
        // SAFETY: nothing else holds the memory, and its stream now comes after every other use.
        unsafe { accelerator.free(self.queue.raw, self.address) }
    }
}
