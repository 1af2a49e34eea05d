//! Streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::Engine;
use super::graph::Recording;
use super::memory::{DeviceMemory, Use};
use super::words::Unclaimed;
use crate::error::Error;
use crate::once::lock;

/// A stream of an accelerator.
pub(crate) struct Queue {
    pub(crate) engine: Arc<Engine>,
    pub(crate) raw: u64,
    /// Whether it is a framework's: never closed by us.
    borrowed: bool,
    /// Whether `recording` holds something: read on every call.
    captured: AtomicBool,
    recording: Mutex<Option<Recording>>,
    /// Deferred calls that nobody waits for any more.
    pub(super) unclaimed: Unclaimed,
}

impl Queue {
    pub(crate) fn open(engine: &Arc<Engine>) -> Result<Arc<Queue>, Error> {
        let raw = engine.accelerator.open_stream()?;
        Ok(Arc::new(Queue::new(engine, raw, false)))
    }

    /// A stream that somebody else owns.
    pub(crate) fn borrowed(engine: &Arc<Engine>, raw: u64) -> Arc<Queue> {
        Arc::new(Queue::new(engine, raw, true))
    }

    fn new(engine: &Arc<Engine>, raw: u64, borrowed: bool) -> Queue {
        Queue {
            engine: engine.clone(),
            raw,
            borrowed,
            captured: AtomicBool::new(false),
            recording: Mutex::default(),
            unclaimed: Unclaimed::default(),
        }
    }

    /// Whether two are one stream: a framework's may have been borrowed twice.
    pub(crate) fn is(&self, other: &Queue) -> bool {
        self.raw == other.raw && super::same(&self.engine, &other.engine)
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.refuse_capture("waiting for the stream")?;
        self.engine.accelerator.synchronize(self.raw)?;
        self.unclaimed_error()
    }

    /// Lets later work come after what `other` has queued until now.
    pub(super) fn wait_for(&self, other: &Queue) -> Result<(), Error> {
        self.refuse_capture("waiting for another stream")?;
        other.refuse_capture("another stream waiting for it")?;
        self.engine.accelerator.wait(self.raw, other.raw)
    }

    /// Whether what is queued now goes into a graph: ours, or one that a framework captures.
    pub(crate) fn is_captured(&self) -> bool {
        self.captured.load(Ordering::Acquire) || (self.borrowed && self.engine.accelerator.is_captured(self.raw))
    }

    /// An error while the stream is captured, before it is touched.
    pub(crate) fn refuse_capture(&self, doing: &str) -> Result<(), Error> {
        if self.is_captured() { Err(Error::Captured { doing: doing.to_owned() }) } else { Ok(()) }
    }

    pub(super) fn begin_recording(&self) -> Result<(), Error> {
        self.refuse_capture("another capture")?;
        let mut recording = lock(&self.recording);
        self.engine.accelerator.begin_capture(self.raw)?;
        *recording = Some(Recording::default());
        self.captured.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn take_recording(&self) -> Recording {
        let recording = lock(&self.recording).take();
        self.captured.store(false, Ordering::Release);
        recording.unwrap_or_default()
    }

    /// Keeps memory for the graph that is being captured, if one is.
    pub(super) fn note(&self, memory: &Arc<DeviceMemory>, how: Use) {
        if self.captured.load(Ordering::Acquire)
            && let Some(recording) = &mut *lock(&self.recording)
        {
            recording.note(memory, how);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Words of the host that are not back yet are left alone for good.
        if !self.borrowed {
            // SAFETY: memory and events hold the queue, so nothing refers to the stream any more.
            unsafe { self.engine.accelerator.close_stream(self.raw) }
        }
    }
}
