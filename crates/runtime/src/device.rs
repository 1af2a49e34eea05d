//! Devices and streams.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rowloom_codegen::{Arch, Source};

use crate::cpu::Tiling;
use crate::engine::{Engine, Queue};
use crate::error::Error;

/// Where tensors live and kernels run. Cheap to clone.
#[derive(Clone)]
pub struct Device(pub(crate) Place);

/// A CPU, or something with its own memory.
#[derive(Clone)]
pub(crate) enum Place {
    Cpu,
    Accelerator(Arc<Engine>),
}

impl Device {
    /// This machine's CPU, on all cores.
    pub fn cpu() -> Device {
        Device(Place::Cpu)
    }

    /// GPU number `ordinal` of the CUDA driver.
    ///
    /// # Errors
    /// [`Error::NoDriver`] and [`Error::NoDevice`] when there is none.
    pub fn cuda(ordinal: u32) -> Result<Device, Error> {
        Ok(Device(Place::Accelerator(crate::cuda::engine(ordinal)?)))
    }

    /// A GPU acted out on the CPU: the generated code compiled by g++, its
    /// blocks and threads interleaved as `seed` says. For tests.
    ///
    /// # Errors
    /// [`Error::NoCompiler`] when there is no g++.
    pub fn emulated(seed: u64) -> Result<Device, Error> {
        Ok(Device(Place::Accelerator(Arc::new(Engine::new(crate::emulation::open(seed)?)))))
    }

    /// GPUs that the CUDA driver sees: [`Device::cuda`] takes `0..count`. 0 without a driver.
    ///
    /// # Errors
    /// [`Error::OldDriver`] and [`Error::Driver`]: a driver that is there but does not work.
    pub fn count() -> Result<u32, Error> {
        crate::cuda::count()
    }

    /// `cuda:0` where there is a GPU, else the CPU.
    ///
    /// # Errors
    /// As [`Device::count`] and [`Device::cuda`]: a GPU that does not work is not taken for none.
    pub fn best() -> Result<Device, Error> {
        if Device::count()? == 0 { Ok(Device::cpu()) } else { Device::cuda(0) }
    }

    /// `cpu`, `cuda:0`, `emulated:0`.
    pub fn name(&self) -> String {
        match &self.0 {
            Place::Cpu => "cpu".to_owned(),
            Place::Accelerator(engine) => engine.accelerator.name(),
        }
    }

    /// The product's name: `NVIDIA H200`. The CPU says `cpu`.
    pub fn product(&self) -> String {
        match &self.0 {
            Place::Cpu => "cpu".to_owned(),
            Place::Accelerator(engine) => engine.accelerator.product(),
        }
    }

    /// Architecture that sources are generated for; `None` for the CPU.
    pub fn arch(&self) -> Option<Arch> {
        match &self.0 {
            Place::Cpu => None,
            Place::Accelerator(engine) => Some(engine.accelerator.arch()),
        }
    }

    /// Version of CUDA that the driver supports: `12.8`. `None` where there is no driver.
    pub fn driver(&self) -> Option<String> {
        match &self.0 {
            Place::Accelerator(engine) if engine.accelerator.name().starts_with("cuda") => {
                crate::cuda::driver_version()
            }
            Place::Accelerator(_) | Place::Cpu => None,
        }
    }

    /// Compiles sources that calls will need soon. In emulation many at once cost little more
    /// than one; elsewhere this does nothing.
    ///
    /// # Errors
    /// When the compiler refuses one.
    pub fn precompile(&self, sources: &[&Source]) -> Result<(), Error> {
        match &self.0 {
            Place::Cpu => Ok(()),
            Place::Accelerator(engine) => engine.accelerator.prepare(sources),
        }
    }

    /// Hash of every source that calls have loaded here so far, as [`Source::hash`]; none on the CPU.
    pub fn loaded_sources(&self) -> Vec<[u8; 32]> {
        match &self.0 {
            Place::Cpu => Vec::new(),
            Place::Accelerator(engine) => engine.modules.loaded(),
        }
    }

    /// A new stream.
    ///
    /// # Errors
    /// When the driver has none left.
    pub fn stream(&self) -> Result<Stream, Error> {
        match &self.0 {
            Place::Cpu => Ok(Stream::cpu(Tiling::default())),
            Place::Accelerator(engine) => Ok(Stream(Lane::Accelerator(Queue::open(engine)?))),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        match (&self.0, &other.0) {
            (Place::Cpu, Place::Cpu) => true,
            (Place::Accelerator(left), Place::Accelerator(right)) => Arc::ptr_eq(left, right),
            (Place::Cpu, Place::Accelerator(_)) | (Place::Accelerator(_), Place::Cpu) => false,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(word: &str) -> Result<Device, Error> {
        let unknown = || Error::UnknownDevice(word.to_owned());
        match word {
            "cpu" => Ok(Device::cpu()),
            "emulated" => Device::emulated(0),
            "cuda" => Device::cuda(0),
            _ => {
                let digits = word.strip_prefix("cuda:").ok_or_else(unknown)?;
                Device::cuda(digits.parse().map_err(|_| unknown())?)
            }
        }
    }
}

/// Work in order on one device. On a CPU and in emulation work is done when a
/// call returns; on a GPU it is queued. Cheap to clone.
#[derive(Clone)]
pub struct Stream(pub(crate) Lane);

#[derive(Clone)]
pub(crate) enum Lane {
    Cpu(Arc<Host>),
    Accelerator(Arc<Queue>),
}

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

    /// A stream of another framework on `device`: a `CUstream` as a number, 0 being the
    /// legacy default stream. It is not closed here.
    ///
    /// # Errors
    /// [`Error::NoRawStream`] on the CPU.
    ///
    /// # Safety
    /// The stream is of `device` in its primary context, and lives until every clone of
    /// the result, and every tensor, plan, workspace, event and graph made or used on it, is
    /// dropped: their memory is freed behind its work.
    #[expect(unsafe_code, reason = "a stream is what its owner says")]
    pub unsafe fn from_raw(device: &Device, stream: u64) -> Result<Stream, Error> {
        match &device.0 {
            Place::Cpu => Err(Error::NoRawStream),
            Place::Accelerator(engine) => Ok(Stream(Lane::Accelerator(Queue::borrowed(engine, stream)))),
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
            queue.refuse_capture("marking a point in time")?;
            if let Some(handle) = queue.engine.accelerator.record(queue.raw)? {
                return Ok(Event(Mark::Device { queue: queue.clone(), handle }));
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
