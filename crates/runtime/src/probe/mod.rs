//! An emulated device that counts what is asked of it, may leave launches out and may
//! hold one up: how tests see who waits for whom, and how a benchmark sees the host alone.
#![expect(unsafe_code, reason = "passes on what its caller vouches for")]

mod gate;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rowloom_codegen::{Arch, Source};

use self::gate::{Gate, Hold};
use crate::accelerator::Accelerator;
use crate::device::{Device, Place};
use crate::engine::Engine;
use crate::error::Error;

/// Counts of one device's calls since it was made.
#[derive(Clone)]
pub struct Probe {
    device: Device,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    idle: AtomicBool,
    gate: Gate,
    /// Whether what events mark is never done.
    late: AtomicBool,
    released_events: AtomicU64,
    launches: AtomicU64,
    allocations: AtomicU64,
    waits: AtomicU64,
    synchronizations: AtomicU64,
    events: AtomicU64,
}

/// What a device was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Kernels.
    pub launches: u64,
    /// Allocations of device memory.
    pub allocations: u64,
    /// Times that a stream was told to wait for another.
    pub waits: u64,
    /// Times that the host waited.
    pub synchronizations: u64,
    /// Events recorded.
    pub events: u64,
}

impl Probe {
    /// A fresh device.
    ///
    /// # Errors
    /// As [`Device::emulated`].
    pub fn new() -> Result<Probe, Error> {
        let counts = Arc::<Counts>::default();
        let beneath = crate::emulation::open(0)?;
        let engine = Engine::new(Box::new(Probed { beneath, counts: counts.clone() }));
        Ok(Probe { device: Device(Place::Accelerator(Arc::new(engine))), counts })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// From now on kernels, graphs, fills and copies within the device are not run.
    pub fn leave_work_out(&self) {
        self.counts.idle.store(true, Ordering::Relaxed);
    }

    /// The next kernel, graph, fill or copy within the device stops right before it is
    /// queued, with whoever asked for it, until [`Probe::let_go`].
    pub fn hold_next(&self) {
        self.counts.gate.set(Hold::Next);
    }

    /// Waits until one is held.
    pub fn wait_until_held(&self) {
        self.counts.gate.wait_while(Hold::Next);
    }

    /// Lets it go on.
    pub fn let_go(&self) {
        self.counts.gate.set(Hold::No);
    }

    /// From now on whoever asks whether an event has happened is told that it has not.
    pub fn leave_events_open(&self) {
        self.counts.late.store(true, Ordering::Relaxed);
    }

    /// Events that were recorded and not given back.
    pub fn live_events(&self) -> u64 {
        self.counts.now().events - self.counts.released_events.load(Ordering::Relaxed)
    }

    /// What was asked for while `body` ran.
    pub fn during(&self, body: impl FnOnce()) -> Asked {
        let before = self.counts.now();
        body();
        let after = self.counts.now();
        Asked {
            launches: after.launches - before.launches,
            allocations: after.allocations - before.allocations,
            waits: after.waits - before.waits,
            synchronizations: after.synchronizations - before.synchronizations,
            events: after.events - before.events,
        }
    }
}

impl Counts {
    fn now(&self) -> Asked {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Asked {
            launches: read(&self.launches),
            allocations: read(&self.allocations),
            waits: read(&self.waits),
            synchronizations: read(&self.synchronizations),
            events: read(&self.events),
        }
    }

    fn idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Probed {
    beneath: Box<dyn Accelerator>,
    counts: Arc<Counts>,
}

impl Accelerator for Probed {
    fn name(&self) -> String {
        self.beneath.name()
    }

    fn product(&self) -> String {
        self.beneath.product()
    }

    fn arch(&self) -> Arch {
        self.beneath.arch()
    }

    fn multiprocessors(&self) -> u32 {
        self.beneath.multiprocessors()
    }

    fn open_stream(&self) -> Result<u64, Error> {
        self.beneath.open_stream()
    }

    fn allocate(&self, stream: u64, bytes: u64) -> Result<u64, Error> {
        count(&self.counts.allocations);
        self.beneath.allocate(stream, bytes)
    }

    unsafe fn free(&self, stream: u64, address: u64) {
        // SAFETY: the caller's word.
        unsafe { self.beneath.free(stream, address) }
    }

    unsafe fn upload(&self, stream: u64, address: u64, bytes: &[u8]) -> Result<(), Error> {
        count(&self.counts.synchronizations);
        // SAFETY: the caller's word.
        unsafe { self.beneath.upload(stream, address, bytes) }
    }

    unsafe fn download(&self, stream: u64, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        count(&self.counts.synchronizations);
        // SAFETY: the caller's word.
        unsafe { self.beneath.download(stream, address, bytes) }
    }

    fn allocate_words(&self, count: u64) -> Result<u64, Error> {
        self.beneath.allocate_words(count)
    }

    unsafe fn download_later(&self, stream: u64, address: u64, word: u64) -> Result<(), Error> {
        // SAFETY: the caller's word.
        unsafe { self.beneath.download_later(stream, address, word) }
    }

    unsafe fn copy(&self, stream: u64, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        self.counts.gate.pass();
        if self.counts.idle() {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.beneath.copy(stream, to, from, bytes) }
    }

    unsafe fn fill(&self, stream: u64, address: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        self.counts.gate.pass();
        if self.counts.idle() {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.beneath.fill(stream, address, byte, bytes) }
    }

    fn prepare(&self, sources: &[&Source]) -> Result<(), Error> {
        self.beneath.prepare(sources)
    }

    fn load(&self, source: &Source) -> Result<Vec<u64>, Error> {
        self.beneath.load(source)
    }

    unsafe fn launch(
        &self,
        stream: u64,
        function: u64,
        shape: (u32, u32),
        early: bool,
        args: &[u64],
    ) -> Result<(), Error> {
        count(&self.counts.launches);
        self.counts.gate.pass();
        if self.counts.idle() {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.beneath.launch(stream, function, shape, early, args) }
    }

    fn synchronize(&self, stream: u64) -> Result<(), Error> {
        count(&self.counts.synchronizations);
        self.beneath.synchronize(stream)
    }

    fn wait(&self, stream: u64, other: u64) -> Result<(), Error> {
        count(&self.counts.waits);
        self.beneath.wait(stream, other)
    }

    fn record(&self, stream: u64) -> Result<Option<u64>, Error> {
        // Its number means nothing: work is done when a call returns.
        count(&self.counts.events);
        self.beneath.record(stream).map(|event| event.or(Some(0)))
    }

    unsafe fn is_done(&self, _event: u64) -> Result<bool, Error> {
        Ok(!self.counts.late.load(Ordering::Relaxed))
    }

    unsafe fn release_event(&self, _event: u64) {
        count(&self.counts.released_events);
    }

    fn begin_capture(&self, stream: u64) -> Result<(), Error> {
        self.beneath.begin_capture(stream)
    }

    fn end_capture(&self, stream: u64) -> Result<u64, Error> {
        self.beneath.end_capture(stream)
    }

    fn is_captured(&self, stream: u64) -> Result<bool, Error> {
        self.beneath.is_captured(stream)
    }

    unsafe fn launch_graph(&self, stream: u64, graph: u64) -> Result<(), Error> {
        self.counts.gate.pass();
        if self.counts.idle() {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.beneath.launch_graph(stream, graph) }
    }

    unsafe fn release_graph(&self, graph: u64) {
        // SAFETY: the caller's word.
        unsafe { self.beneath.release_graph(graph) }
    }
}
