//! What a record depends on besides what it is for.

use rowloom_codegen::{Arch, SClass, Source, Subject};

use super::{Provenance, Record};
use crate::cache::CodeCache;
use crate::cuda::{self, Gpu};
use crate::device::{Device, Place};
use crate::engine::Engine;
use crate::error::Error;
use crate::notice::one_line;

/// A device as records name it.
pub struct Machine<'a> {
    /// The product's name.
    pub product: String,
    /// Its driver; none in emulation.
    pub driver: Option<String>,
    /// Architecture that sources are generated for.
    pub arch: Arch,
    compiler: Compiler<'a>,
}

/// The version of the NVRTC whose code of a source would run.
type Compiler<'a> = Box<dyn Fn(&Source) -> Result<Option<(u32, u32)>, Error> + Send + Sync + 'a>;

/// Why a record is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another product, driver or NVRTC.
    #[error("it was made with {what} {made}, and this is {here}")]
    Other {
        /// `the GPU`, `the architecture`, `driver` or `NVRTC`.
        what: &'static str,
        /// Of the record.
        made: String,
        /// Of this machine.
        here: String,
    },
    /// No search writes such a record.
    #[error("it is no record of a search: {0}")]
    Unsound(String),
    /// Its schedule generates another source.
    #[error("its schedule generated the source {made}, and generates {here} now")]
    Source {
        /// Hash in the record.
        made: String,
        /// Hash of today's.
        here: String,
    },
    /// Its schedule is not legal.
    #[error("its schedule is not legal: {0}")]
    Illegal(String),
    /// Its code cannot be had.
    #[error("its code cannot be had: {0}")]
    NoCode(String),
}

impl<'a> Machine<'a> {
    /// One of these names. `compiler` says which NVRTC's code of a source would run.
    pub fn new(
        product: impl Into<String>,
        driver: Option<String>,
        arch: Arch,
        compiler: impl Fn(&Source) -> Result<Option<(u32, u32)>, Error> + Send + Sync + 'a,
    ) -> Machine<'a> {
        Machine { product: product.into(), driver, arch, compiler: Box::new(compiler) }
    }

    /// What a device is; nothing for the CPU, which has no schedules.
    pub fn of_device(device: &'a Device) -> Option<Machine<'a>> {
        match &device.0 {
            Place::Cpu => None,
            Place::Accelerator(engine) => Some(Machine::of(engine)),
        }
    }

    pub(crate) fn of(engine: &'a Engine) -> Machine<'a> {
        let accelerator = &*engine.accelerator;
        let compiler = |source: &Source| accelerator.compiler(source);
        Machine::new(accelerator.product(), accelerator.driver(), accelerator.arch(), compiler)
    }

    /// What a GPU is that was not opened. `cuda` is the version that [`crate::gpus`] gives.
    pub fn of_gpu(gpu: &Gpu, cuda: &str) -> Machine<'static> {
        let arch = gpu.arch;
        let compiler = move |source: &Source| CodeCache::of_process().compiler_of(source, arch).map(Some);
        Machine::new(&*gpu.product, cuda::driver_name(Some(cuda)), arch, compiler)
    }

    /// Where a record of this winner's source is made here.
    ///
    /// # Errors
    /// When its code cannot be had here.
    pub fn provenance(&self, source: &Source) -> Result<Provenance, Error> {
        Ok(Provenance {
            product: self.product.clone(),
            driver: self.driver.clone(),
            nvrtc: self.nvrtc(source)?,
            source: source.hash().to_string(),
        })
    }

    fn nvrtc(&self, source: &Source) -> Result<Option<String>, Error> {
        Ok((self.compiler)(source)?.map(|(major, minor)| format!("{major}.{minor}")))
    }

    /// Whether everything that a record of this subject names is so here.
    ///
    /// # Errors
    /// The first thing that is not.
    pub fn check(&self, subject: &Subject, record: &Record) -> Result<(), Refusal> {
        record.check()?;
        let Provenance { product, driver, nvrtc, source } = &record.provenance;
        same("the GPU", Some(product), Some(&self.product))?;
        let (made, here) = (record.key.arch().to_string(), self.arch.to_string());
        same("the architecture", Some(&made), Some(&here))?;
        if let Subject::Kernel { kernel, spec } = subject
            && SClass::of(record.positions, kernel.order.block) != spec.s_class
        {
            let what = format!("S = {} is of another class than its Spec says", record.positions);
            return Err(Refusal::Unsound(what));
        }
        same("driver", driver.as_ref(), self.driver.as_ref())?;
        let generated = subject.generate(&record.winner).map_err(|fault| Refusal::Illegal(fault.to_string()))?;
        let here = generated.hash().to_string();
        if *source != here {
            return Err(Refusal::Source { made: short(source), here: short(&here) });
        }
        let here = self.nvrtc(&generated).map_err(|error| Refusal::NoCode(error.to_string()))?;
        same("NVRTC", nvrtc.as_ref(), here.as_ref())
    }
}

fn same(what: &'static str, made: Option<&String>, here: Option<&String>) -> Result<(), Refusal> {
    if made == here {
        return Ok(());
    }
    let name = |value: Option<&String>| value.map_or_else(|| "none".to_owned(), |value| one_line(value));
    Err(Refusal::Other { what, made: name(made), here: name(here) })
}

/// Enough of a hash for a person to tell two apart.
fn short(hash: &str) -> String {
    hash.chars().take(16).collect()
}
