//! What CUDA and the emulation share: a device that runs a
//! [`rowloom_codegen::Source`].
#![expect(unsafe_code, reason = "raw addresses are trusted: see the trait")]

use rowloom_codegen::{Arch, Source};

use crate::error::Error;

/// A device with its own memory and code: a GPU or its emulation.
///
/// Streams, addresses, functions and events are plain numbers here; each is
/// valid only on the device that gave it. Work of one stream runs in order.
/// A failed call leaves the device usable.
///
/// # Safety of the unsafe methods
/// Addresses must come from [`Accelerator::allocate`] of this device, not be
/// freed, and have the given bytes behind them; streams, functions and events
/// must come from this device and not be closed.
pub(crate) trait Accelerator: Send + Sync {
    /// `cuda:0`, `emulated`.
    fn name(&self) -> String;

    /// The product's name.
    fn product(&self) -> String;

    /// Architecture to generate for.
    fn arch(&self) -> Arch;

    /// The driver by its own release; `None` where there is none.
    fn driver(&self) -> Option<String> {
        None
    }

    /// Version of the NVRTC whose code of a source would run; `None` where it is compiled by something else.
    fn compiler(&self, _source: &Source) -> Result<Option<(u32, u32)>, Error> {
        Ok(None)
    }

    /// Bytes of the cache that all of it shares; 0 where there is none of its own.
    fn cache_bytes(&self) -> u64 {
        0
    }

    /// Bytes that can still be allocated, once the stream's work is done; `None` where nobody tells.
    fn free_bytes(&self, _stream: u64) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// How many multiprocessors it has.
    fn multiprocessors(&self) -> u32;

    /// A new stream.
    fn open_stream(&self) -> Result<u64, Error> {
        Ok(0)
    }

    /// Gives a stream back once its work is done.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn close_stream(&self, _stream: u64) {}

    /// Memory of at least `bytes` bytes, aligned to 256, content unspecified.
    fn allocate(&self, stream: u64, bytes: u64) -> Result<u64, Error>;

    /// Gives memory back once the stream's earlier work is done.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn free(&self, stream: u64, address: u64);

    /// Copies to the device. On return `bytes` may change.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn upload(&self, stream: u64, address: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Copies from the device and waits for it.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn download(&self, stream: u64, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Addresses of `count` consecutive u64 of host memory that
    /// [`Accelerator::download_later`] may write to; they live as long as the device.
    fn allocate_words(&self, count: u64) -> Result<u64, Error>;

    /// Copies a u64 of the device to one of [`Accelerator::allocate_words`], in the
    /// stream's order, without waiting.
    ///
    /// # Safety
    /// See the trait; and nobody else uses the word of the host until then.
    unsafe fn download_later(&self, stream: u64, address: u64, word: u64) -> Result<(), Error>;

    /// Copies `bytes` bytes within the device. The two ranges do not overlap.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn copy(&self, stream: u64, to: u64, from: u64, bytes: u64) -> Result<(), Error>;

    /// Sets `bytes` bytes to `byte`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn fill(&self, stream: u64, address: u64, byte: u8, bytes: u64) -> Result<(), Error>;

    /// Compiles sources that will be loaded soon, where many at once cost less than one by one.
    fn prepare(&self, _sources: &[&Source]) -> Result<(), Error> {
        Ok(())
    }

    /// Compiles and loads a source: one function per entry, in the order of
    /// [`Source::entries`]. They live as long as the device.
    fn load(&self, source: &Source) -> Result<Vec<u64>, Error>;

    /// Launches so many blocks of so many threads, `shape`. Every argument is 64 bits. What is `early` may
    /// begin before earlier launches have ended: it waits for them itself.
    ///
    /// # Safety
    /// See the trait; and the arguments must be what the entry's parameters say.
    unsafe fn launch(
        &self,
        stream: u64,
        function: u64,
        shape: (u32, u32),
        early: bool,
        args: &[u64],
    ) -> Result<(), Error>;

    /// Waits for all work of a stream.
    fn synchronize(&self, stream: u64) -> Result<(), Error>;

    /// Lets later work of `stream` wait for the work that `other` has now.
    fn wait(&self, _stream: u64, _other: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Marks a point in a stream. `None` where work is done when a call
    /// returns, so that the clock of the host tells the time.
    fn record(&self, _stream: u64) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Microseconds of device time from one event to another; waits for both.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn elapsed_us(&self, _start: u64, _end: u64) -> Result<f64, Error> {
        Ok(0.0)
    }

    /// Whether the work before an event is done.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn is_done(&self, _event: u64) -> Result<bool, Error> {
        Ok(true)
    }

    /// Waits for the work before an event.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn finish(&self, _event: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Gives an event back.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn release_event(&self, _event: u64) {}

    /// From now on what is queued on the stream is recorded, not run.
    fn begin_capture(&self, stream: u64) -> Result<(), Error>;

    /// Ends a capture, which a failed call within may have spoilt: then an error,
    /// and the stream runs again as before.
    fn end_capture(&self, stream: u64) -> Result<u64, Error>;

    /// Whether the stream is captured, by whomever, or may not be used because another one is.
    fn is_captured(&self, stream: u64) -> Result<bool, Error>;

    /// Runs what was recorded, in the stream's order.
    ///
    /// # Safety
    /// See the trait; and all memory that the recorded work uses is still allocated.
    unsafe fn launch_graph(&self, stream: u64, graph: u64) -> Result<(), Error>;

    /// Gives a graph back once its work is done.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn release_graph(&self, _graph: u64) {}
}
