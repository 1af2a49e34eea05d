//! Devices and streams.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
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

    /// `cuda:0` where there is one, else the CPU.
    pub fn best() -> Device {
        Device::cuda(0).unwrap_or_else(|_| Device::cpu())
    }

    /// `cpu`, `cuda:0`, `emulated`.
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
            Place::Cpu => Ok(Stream(Lane::Cpu(Tiling::default()))),
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
    Cpu(Tiling),
    Accelerator(Arc<Queue>),
}

impl Stream {
    /// A stream of the CPU that cuts its work as `tiling` says. For tests: the
    /// bytes are the same for every tiling.
    pub fn cpu(tiling: Tiling) -> Stream {
        Stream(Lane::Cpu(tiling))
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
    /// What the device reports about work that failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.0 {
            Lane::Cpu(_) => Ok(()),
            Lane::Accelerator(queue) => queue.synchronize(),
        }
    }

    /// Marks this point in its work.
    ///
    /// # Errors
    /// What the device reports.
    pub fn record(&self) -> Result<Event, Error> {
        if let Lane::Accelerator(queue) = &self.0
            && let Some(handle) = queue.engine.accelerator.record(queue.raw)?
        {
            return Ok(Event(Mark::Device { queue: queue.clone(), handle }));
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
