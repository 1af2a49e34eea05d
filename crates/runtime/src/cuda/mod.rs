//! GPUs, through the CUDA driver that is found at run time.

mod context;
mod device;
mod driver;
mod list;
mod pool;
mod release;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Engine;
use crate::error::Error;
pub use list::{Gpu, gpus};
pub use release::driver_release;

/// The engine of GPU `ordinal`: one per process, so that its loaded code and
/// its tensors are known wherever the device was asked for.
///
/// # Errors
/// [`Error::NoDriver`], [`Error::OldDriver`] and [`Error::NoDevice`]; what the driver reports.
pub(crate) fn engine(ordinal: u32) -> Result<Arc<Engine>, Error> {
    static ENGINES: Mutex<BTreeMap<u32, Arc<Engine>>> = Mutex::new(BTreeMap::new());
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = engines.get(&ordinal) {
        return Ok(engine.clone());
    }
    let engine = Arc::new(Engine::new(Box::new(device::Cuda::open(ordinal)?)));
    engines.insert(ordinal, engine.clone());
    Ok(engine)
}

/// GPUs that the driver sees; 0 without a driver.
///
/// # Errors
/// A driver that is there but does not work.
pub(crate) fn count() -> Result<u32, Error> {
    match driver::start() {
        Ok(()) => driver::count(),
        Err(Error::NoDriver { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Version of CUDA that the driver supports, once an engine is open.
pub(crate) fn driver_version() -> Option<String> {
    driver::version().ok().map(driver::text)
}

/// The driver by its own release; where the system does not tell, by the version of CUDA that it supports.
pub(crate) fn driver_name(cuda: Option<&str>) -> Option<String> {
    driver_release().or_else(|| cuda.map(|version| format!("CUDA {version}")))
}
