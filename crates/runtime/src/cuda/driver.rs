//! Finding the driver. cudarc panics where the library or one of its functions
//! is missing, so both are probed before the first call.
#![expect(unsafe_code, reason = "a C library")]

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::error::Error;

/// The oldest version served: what the functions that cudarc looks up are part of.
const OLDEST: u32 = 12020;

/// The first that captures early launches.
pub(super) const EARLY_LAUNCHES: u32 = 12030;

/// The process that started the driver; 0 before that. In a child that is forked later it does not work.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Loads and initialises the driver, once or again.
pub(super) fn start() -> Result<(), Error> {
    refuse_forked()?;
    initialise()?;
    STARTED.store(process::id(), Ordering::Relaxed);
    Ok(())
}

/// Refuses a driver that was started before this process was forked.
fn refuse_forked() -> Result<(), Error> {
    match STARTED.load(Ordering::Relaxed) {
        0 => Ok(()),
        started if started == process::id() => Ok(()),
        started => Err(Error::Forked { started }),
    }
}

fn initialise() -> Result<(), Error> {
    let searched = || Error::NoDriver { searched: ["libcuda.so", "libcuda.so.1"].map(str::to_owned).to_vec() };
    // SAFETY: loads the driver by its own names; its initialisers are trusted as it is.
    if !unsafe { sys::is_culib_present() } {
        return Err(searched());
    }
    // SAFETY: the library is there. A file of its name that is no driver ends here.
    if unsafe { sys::culib().get::<unsafe extern "C" fn()>(b"cuDriverGetVersion\0") }.is_err() {
        return Err(searched());
    }
    let found = version()?;
    if found < OLDEST {
        return Err(Error::OldDriver { found: text(found), needed: text(OLDEST) });
    }
    match result::init() {
        // Says that there is no GPU, not that something is wrong: `count` says so too.
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(()),
        other => other.map_err(|error| failed("cuInit", None, error)),
    }
}

/// GPUs that the driver sees.
pub(super) fn count() -> Result<u32, Error> {
    match result::device::get_count() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE | sys::CUresult::CUDA_ERROR_NOT_INITIALIZED)) => Ok(0),
        Err(error) => Err(failed("cuDeviceGetCount", None, error)),
        Ok(count) => Ok(u32::try_from(count).unwrap_or(0)),
    }
}

/// The CUDA version that the driver supports: 12020 is 12.2.
pub(super) fn version() -> Result<u32, Error> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|error| failed("cuDriverGetVersion", None, error))?;
    Ok(version as u32)
}

/// A version as one reads it.
pub(super) fn text(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The error of a failed call.
pub(super) fn failed(call: &'static str, ordinal: Option<u32>, error: DriverError) -> Error {
    if let Err(forked) = refuse_forked() {
        return forked;
    }
    let device = ordinal.map_or_else(|| "the CUDA driver".to_owned(), |ordinal| format!("cuda:{ordinal}"));
    let (code, message) = describe(error);
    Error::Driver { call, device, code, message }
}

/// The name of a code and the driver's sentence for it.
pub(super) fn describe(error: DriverError) -> (String, String) {
    let text = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| format!("{:?}", error.0), |text| text.to_string_lossy().into_owned())
    };
    (text(error.error_name()), text(error.error_string()))
}
