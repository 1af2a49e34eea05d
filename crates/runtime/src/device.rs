//! Devices.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rowloom_codegen::{Arch, Source};

use crate::cpu::Tiling;
use crate::engine::{Engine, Queue};
use crate::error::Error;
use crate::stream::{Lane, Stream};
use crate::tuning::Records;

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

    /// The same with these records of tuning in place of the process's own.
    ///
    /// # Errors
    /// As [`Device::emulated`].
    #[doc(hidden)]
    pub fn emulated_with(seed: u64, records: Arc<Records>) -> Result<Device, Error> {
        let mut engine = Engine::new(crate::emulation::open(seed)?);
        engine.records = Some(records);
        Ok(Device(Place::Accelerator(Arc::new(engine))))
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

    /// Hash of every source that calls have asked for here so far, as [`Source::hash`]; none on the CPU.
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
                // A number may be read with a sign.
                if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                    return Err(unknown());
                }
                Device::cuda(digits.parse().map_err(|_| unknown())?)
            }
        }
    }
}
