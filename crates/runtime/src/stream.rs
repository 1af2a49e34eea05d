//! Streams, and points in their work.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cpu::Tiling;
use crate::device::{Device, Place};
use crate::engine::Queue;
use crate::error::Error;

/// Work in order on one device. On a CPU and in emulation work is done when a
/// call returns; on a GPU it is queued. Cheap to clone.
#[derive(Clone)]
pub struct Stream(pub(crate) Lane);

#[derive(Clone)]
pub(crate) enum Lane {
    Cpu(Arc<Host>),
    Accelerator(Arc<Queue>),
}

/// `CU_STREAM_LEGACY`, which is 0 by another name.
const LEGACY: u64 = 1;

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;

/// A stream of the CPU.
pub(crate) struct Host {
    pub(crate) tiling: Tiling,
    /// Errors of deferred calls that nobody waits for any more.
    pub(crate) unclaimed: Mutex<VecDeque<Error>>,
}

impl Stream {
    /// A stream of the CPU that cuts its work as `tiling` says. For tests: the
    /// bytes are the same for every tiling.
    pub fn cpu(tiling: Tiling) -> Stream {
        Stream(Lane::Cpu(Arc::new(Host { tiling, unclaimed: Mutex::default() })))
    }

    /// A stream of another framework on `device`: a `CUstream` as a number, 0 and 1 being the
    /// legacy default stream. It is not closed here. Borrowed twice it is one stream.
    ///
    /// # Errors
    /// [`Error::NoRawStream`] on the CPU; [`Error::PerThreadStream`] for 2, which is another
    /// stream on each thread.
    ///
    /// # Safety
    /// The stream is of `device` in its primary context, and lives until every clone of
    /// the result, and every tensor, plan, workspace, event and graph made or used on it, is
    /// dropped: their memory is freed behind its work. A graph that the framework itself
    /// captures on it knows nothing of them: whatever was used here meanwhile, tensors, plans and
    /// workspaces, must outlive every replay of that graph, and is in no order with it but that of the
    /// streams it is replayed on.
    #[expect(unsafe_code, reason = "a stream is what its owner says")]
    pub unsafe fn from_raw(device: &Device, stream: u64) -> Result<Stream, Error> {
        match &device.0 {
            Place::Cpu => Err(Error::NoRawStream),
            Place::Accelerator(_) if stream == PER_THREAD => Err(Error::PerThreadStream),
            Place::Accelerator(engine) => {
                let stream = if stream == LEGACY { 0 } else { stream };
                Ok(Stream(Lane::Accelerator(Queue::borrowed(engine, stream))))
            }
        }
    }

    /// Its device.
    pub fn device(&self) -> Device {
        match &self.0 {
            Lane::Cpu(_) => Device::cpu(),
            Lane::Accelerator(queue) => Device(Place::Accelerator(queue.engine.clone())),
        }
    }

    /// Waits until all its work is done.
    ///
    /// # Errors
    /// What the device reports about work that failed; the error of a deferred call that
    /// nobody waited for.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.0 {
            Lane::Cpu(_) => self.unclaimed_error(),
            Lane::Accelerator(queue) => queue.synchronize(),
        }
    }

    /// Whether it is being captured into a graph, by us or by a framework whose stream it is.
    ///
    /// # Errors
    /// What the device reports.
    pub fn is_captured(&self) -> Result<bool, Error> {
        match &self.0 {
            Lane::Cpu(_) => Ok(false),
            Lane::Accelerator(queue) => queue.is_captured(),
        }
    }

    /// The error of a deferred call that nobody waits for any more.
    pub(crate) fn unclaimed_error(&self) -> Result<(), Error> {
        match &self.0 {
            Lane::Cpu(host) => {
                host.unclaimed.lock().unwrap_or_else(PoisonError::into_inner).pop_front().map_or(Ok(()), Err)
            }
            Lane::Accelerator(queue) => queue.unclaimed_error(),
        }
    }

    /// Whether two are one stream.
    pub(crate) fn is(&self, other: &Stream) -> bool {
        match (&self.0, &other.0) {
            // Work of the CPU is done when a call returns.
            (Lane::Cpu(_), Lane::Cpu(_)) => true,
            (Lane::Accelerator(own), Lane::Accelerator(other)) => own.is(other),
            (Lane::Cpu(_), Lane::Accelerator(_)) | (Lane::Accelerator(_), Lane::Cpu(_)) => false,
        }
    }

    /// Marks this point in its work.
    ///
    /// # Errors
    /// What the device reports.
    pub fn record(&self) -> Result<Event, Error> {
        if let Lane::Accelerator(queue) = &self.0 {
            let queue = queue.submit_uncaptured("marking a point in time")?;
            if let Some(handle) = queue.engine.accelerator.record(queue.raw)? {
                return Ok(Event(Mark::Device { queue: Arc::clone(&queue), handle }));
            }
        }
        Ok(Event(Mark::Host(Instant::now())))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.device())
    }
}

/// A point in the work of a stream.
pub struct Event(Mark);

enum Mark {
    Host(Instant),
    Device { queue: Arc<Queue>, handle: u64 },
}

impl Event {
    /// Microseconds of the device's time from `earlier` to this event. Waits
    /// for both.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] when they are of two devices; what the device reports.
    pub fn elapsed_us(&self, earlier: &Event) -> Result<f64, Error> {
        match (&earlier.0, &self.0) {
            (Mark::Host(start), Mark::Host(end)) => Ok(end.duration_since(*start).as_secs_f64() * 1e6),
            (Mark::Device { queue: first, handle: start }, Mark::Device { queue, handle: end })
                if Arc::ptr_eq(&first.engine, &queue.engine) =>
            {
                queue.engine.elapsed_us(*start, *end)
            }
            (earlier, later) => Err(Error::WrongDevice {
                argument: "the earlier event".to_owned(),
                expected: later.device(),
                found: earlier.device(),
            }),
        }
    }
}

impl Mark {
    fn device(&self) -> String {
        match self {
            Mark::Host(_) => "cpu".to_owned(),
            Mark::Device { queue, .. } => queue.engine.accelerator.name(),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Mark::Device { queue, handle } = &self.0 {
            queue.engine.release_event(*handle);
        }
    }
}
