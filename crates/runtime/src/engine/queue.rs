//! Streams.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::Engine;
use super::graph::Recording;
use super::memory::{DeviceMemory, Use};
use super::words::Unclaimed;
use crate::error::Error;
use crate::once::lock;

/// A stream of an accelerator: one for each number that is in use.
pub(crate) struct Queue {
    pub(crate) engine: Arc<Engine>,
    pub(crate) raw: u64,
    /// Whether it is a framework's: never closed by us.
    borrowed: bool,
    /// Submissions under way.
    submissions: AtomicU64,
    /// Whether `recording` holds something: read on every call.
    captured: AtomicBool,
    recording: Mutex<Option<Recording>>,
    /// Deferred calls that nobody waits for any more.
    pub(super) unclaimed: Unclaimed,
}

/// What a thread is queueing: from before it joins memory until its work is queued. As long as
/// there is one, whoever waits for the stream cannot know that it has waited for all of it, and
/// no capture begins.
pub(crate) struct Submission<'a>(&'a Arc<Queue>);

impl Deref for Submission<'_> {
    type Target = Arc<Queue>;

    fn deref(&self) -> &Arc<Queue> {
        self.0
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        self.0.submissions.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue {
    pub(crate) fn open(engine: &Arc<Engine>) -> Result<Arc<Queue>, Error> {
        let raw = engine.accelerator.open_stream()?;
        let queue = Arc::new(Queue::new(engine, raw, false));
        let mut queues = lock(&engine.queues);
        queues.retain(|_, queue| queue.strong_count() > 0);
        queues.insert(raw, Arc::downgrade(&queue));
        Ok(queue)
    }

    /// A stream that somebody else owns.
    pub(crate) fn borrowed(engine: &Arc<Engine>, raw: u64) -> Arc<Queue> {
        let mut queues = lock(&engine.queues);
        if let Some(queue) = queues.get(&raw).and_then(Weak::upgrade) {
            return queue;
        }
        let queue = Arc::new(Queue::new(engine, raw, true));
        queues.retain(|_, queue| queue.strong_count() > 0);
        queues.insert(raw, Arc::downgrade(&queue));
        queue
    }

    fn new(engine: &Arc<Engine>, raw: u64, borrowed: bool) -> Queue {
        Queue {
            engine: engine.clone(),
            raw,
            borrowed,
            submissions: AtomicU64::new(0),
            captured: AtomicBool::new(false),
            recording: Mutex::default(),
            unclaimed: Unclaimed::default(),
        }
    }

    /// Whether two are one stream.
    pub(crate) fn is(&self, other: &Queue) -> bool {
        std::ptr::eq(self, other)
    }

    /// Begins to queue work, which a capture of this very thread records.
    ///
    /// # Errors
    /// [`Error::Captured`] while another thread captures the stream: the work would be recorded, not run.
    pub(crate) fn submit(self: &Arc<Self>) -> Result<Submission<'_>, Error> {
        let submission = self.enter();
        if self.captured.load(Ordering::SeqCst)
            && lock(&self.recording).as_ref().is_some_and(|recording| !recording.is_of_this_thread())
        {
            return Err(Error::Captured { doing: "work of another thread".to_owned() });
        }
        Ok(submission)
    }

    /// Begins what cannot be part of a graph.
    ///
    /// # Errors
    /// [`Error::Captured`] while the stream is captured, before it is touched.
    pub(crate) fn submit_uncaptured(self: &Arc<Self>, doing: &str) -> Result<Submission<'_>, Error> {
        let submission = self.enter();
        self.refuse_capture(doing)?;
        Ok(submission)
    }

    fn enter(self: &Arc<Self>) -> Submission<'_> {
        // Before `captured` is read, as `begin_recording` sets it before it reads this: one of the
        // two sees the other.
        self.submissions.fetch_add(1, Ordering::SeqCst);
        Submission(self)
    }

    /// Whether all that was ever submitted is queued: waiting for the stream then waits for all of it.
    pub(super) fn is_settled(&self) -> bool {
        self.submissions.load(Ordering::SeqCst) == 0
    }

    /// Whether all that was ever submitted is done. Of a framework's stream we cannot know.
    pub(super) fn is_idle(self: &Arc<Self>) -> bool {
        if self.borrowed || !self.is_settled() {
            return false;
        }
        let Ok(submission) = self.submit_uncaptured("looking at a stream") else { return false };
        let accelerator = &submission.engine.accelerator;
        match accelerator.record(submission.raw) {
            Ok(None) => true,
            Ok(Some(event)) => {
                // SAFETY: the event is of this device, and given back once.
                let done = unsafe { accelerator.is_done(event) };
                // SAFETY: as above.
                unsafe { accelerator.release_event(event) };
                done.unwrap_or(false)
            }
            Err(_) => false,
        }
    }

    pub(crate) fn synchronize(self: &Arc<Self>) -> Result<(), Error> {
        let submission = self.submit_uncaptured("waiting for the stream")?;
        self.engine.accelerator.synchronize(self.raw)?;
        drop(submission);
        self.unclaimed_error()
    }

    /// Whether what is queued now goes into a graph: ours, or one that a framework captures.
    pub(crate) fn is_captured(&self) -> Result<bool, Error> {
        let ours = self.captured.load(Ordering::SeqCst);
        if ours || !self.borrowed { Ok(ours) } else { self.engine.accelerator.is_captured(self.raw) }
    }

    /// An error while the stream is captured, before it is touched.
    pub(crate) fn refuse_capture(&self, doing: &str) -> Result<(), Error> {
        if self.is_captured()? { Err(Error::Captured { doing: doing.to_owned() }) } else { Ok(()) }
    }

    pub(super) fn begin_recording(&self) -> Result<(), Error> {
        let mut recording = lock(&self.recording);
        self.refuse_capture("another capture")?;
        *recording = Some(Recording::of_this_thread());
        self.captured.store(true, Ordering::SeqCst);
        drop(recording);
        // What other threads are queueing is not part of it; from now on they are refused.
        while !self.is_settled() {
            std::thread::sleep(Duration::from_micros(20));
        }
        let begun = self.engine.accelerator.begin_capture(self.raw);
        if begun.is_err() {
            self.take_recording();
        }
        begun
    }

    /// Ends the recording, and gives the memory that it has noted.
    pub(super) fn take_recording(&self) -> Vec<(Arc<DeviceMemory>, Use)> {
        let recording = lock(&self.recording).take();
        self.captured.store(false, Ordering::SeqCst);
        recording.map_or_else(Vec::new, Recording::into_used)
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

impl Submission<'_> {
    /// Lets its work come after what `other` has queued until now.
    pub(super) fn wait_for(&self, other: &Arc<Queue>) -> Result<(), Error> {
        self.refuse_capture("waiting for another stream")?;
        let other = other.submit_uncaptured("another stream waiting for it")?;
        self.engine.accelerator.wait(self.raw, other.raw)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.drop_unclaimed();
        if !self.borrowed {
            // SAFETY: memory and events hold the queue, so nothing refers to the stream any more.
            unsafe { self.engine.accelerator.close_stream(self.raw) }
        }
    }
}
