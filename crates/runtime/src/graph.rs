//! Calls that are captured once and replayed.

use std::fmt;

use crate::device::{Device, Place};
use crate::engine::{self, RawGraph};
use crate::error::Error;
use crate::stream::{Lane, Stream};

/// Work of a stream, captured to be replayed with one call: a CUDA graph. It reads
/// and writes the very tensors of the capture, whatever they hold then, and keeps
/// their memory as long as it lives; but memory that was borrowed from another
/// framework must be kept by whoever promised so.
pub struct Graph(RawGraph);

impl Stream {
    /// Records what `body` calls on this stream, without running it.
    ///
    /// Planned calls of the `_into` forms can be captured, and fills and copies of
    /// tensors; each call must have run once before on this stream, so that its code is
    /// loaded and its tensors are in order. All else is refused: what allocates, waits,
    /// checks or compiles, and what other threads call on this stream meanwhile.
    ///
    /// # Errors
    /// That of `body`; [`Error::Captured`] for what cannot be captured, before the stream
    /// is touched; [`Error::NoGraphs`] on the CPU. The stream then runs as before.
    pub fn capture(&self, body: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
        match &self.0 {
            Lane::Cpu(_) => Err(Error::NoGraphs),
            Lane::Accelerator(queue) => RawGraph::capture(queue, body).map(Graph),
        }
    }
}

impl Graph {
    /// Queues the captured work on a stream of the same device, behind what other streams
    /// do with its tensors. Does not wait.
    ///
    /// Calls of other threads with the same tensors must not run at the same time: what a
    /// replay reads and writes is not borrowed.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Captured`]; what the device reports.
    pub fn replay(&self, stream: &Stream) -> Result<(), Error> {
        match &stream.0 {
            Lane::Accelerator(queue) if engine::same(&queue.engine, &self.0.engine) => {
                stream.unclaimed_error()?;
                self.0.replay(queue)
            }
            Lane::Accelerator(_) | Lane::Cpu(_) => {
                let (expected, found) = (stream.device().name(), self.device().name());
                Err(Error::WrongDevice { argument: "the graph".to_owned(), expected, found })
            }
        }
    }

    /// Its device.
    pub fn device(&self) -> Device {
        Device(Place::Accelerator(self.0.engine.clone()))
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.device())
    }
}
