//! Work that is recorded once and run again.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use super::memory::{DeviceMemory, Use};
use super::{Engine, Queue};
use crate::error::Error;
use crate::once::lock;

/// Who captures a stream, and what that has used so far.
pub(super) struct Recording {
    thread: ThreadId,
    used: Vec<(Arc<DeviceMemory>, Use)>,
}

impl Recording {
    pub(super) fn of_this_thread() -> Recording {
        Recording { thread: std::thread::current().id(), used: Vec::new() }
    }

    pub(super) fn is_of_this_thread(&self) -> bool {
        self.thread == std::thread::current().id()
    }

    pub(super) fn into_used(self) -> Vec<(Arc<DeviceMemory>, Use)> {
        self.used
    }

    pub(super) fn note(&mut self, memory: &Arc<DeviceMemory>, how: Use) {
        match self.used.iter_mut().find(|(known, _)| Arc::ptr_eq(known, memory)) {
            Some((_, known)) if how == Use::Write => *known = how,
            Some(_) => {}
            None => self.used.push((memory.clone(), how)),
        }
    }
}

/// A graph and the memory of ours that it uses, kept as long as it.
pub(crate) struct RawGraph {
    pub(crate) engine: Arc<Engine>,
    graph: u64,
    /// Held over a launch: a driver's graph is launched by one thread at a time.
    launching: Mutex<()>,
    used: Vec<(Arc<DeviceMemory>, Use)>,
}

impl RawGraph {
    /// Records what `body` queues. Whatever happens, the stream runs again afterwards.
    pub(crate) fn capture(queue: &Arc<Queue>, body: impl FnOnce() -> Result<(), Error>) -> Result<RawGraph, Error> {
        queue.begin_recording()?;
        let capture = Capture { queue, open: true };
        let done = body();
        let graph = capture.end();
        done?;
        graph
    }

    /// Queues its work.
    pub(crate) fn replay(&self, queue: &Arc<Queue>) -> Result<(), Error> {
        let queue = queue.submit_uncaptured("replaying a graph")?;
        let _launching = lock(&self.launching);
        for (memory, how) in &self.used {
            memory.join(&queue, *how)?;
        }
        // SAFETY: the graph is ours, no other thread launches it now, its memory is alive, and the
        // stream comes after what uses it.
        unsafe { self.engine.accelerator.launch_graph(queue.raw, self.graph) }
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        // Its memory is dropped after this, behind every stream that it ran on.
        // SAFETY: called by the only owner; the driver finishes what runs.
        unsafe { self.engine.accelerator.release_graph(self.graph) }
    }
}

/// A capture that ends also where the body panics.
struct Capture<'a> {
    queue: &'a Arc<Queue>,
    open: bool,
}

impl Capture<'_> {
    fn end(mut self) -> Result<RawGraph, Error> {
        self.close()
    }

    fn close(&mut self) -> Result<RawGraph, Error> {
        self.open = false;
        let engine = self.queue.engine.clone();
        let graph = engine.accelerator.end_capture(self.queue.raw);
        let used = self.queue.take_recording();
        engine.release_parked();
        Ok(RawGraph { graph: graph?, engine, launching: Mutex::default(), used })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            // Only a panic comes here; it says more than this error would.
            let _ = self.close();
        }
    }
}
