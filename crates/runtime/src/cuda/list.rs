//! The GPUs of this machine, without opening them.
#![expect(unsafe_code, reason = "a C library")]

use cudarc::driver::result;
use cudarc::driver::sys::CUdevice_attribute;
use rowloom_codegen::Arch;

use super::driver::{self, failed};
use crate::error::Error;

/// A GPU that the driver sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number: `cuda:0`.
    pub ordinal: u32,
    /// The product's name.
    pub product: String,
    /// Its architecture.
    pub arch: Arch,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// Every GPU that the driver sees, and the CUDA version that the driver supports.
/// Opens none, so that it costs no memory of theirs.
///
/// # Errors
/// [`Error::NoDriver`], [`Error::OldDriver`], and what the driver reports.
pub fn gpus() -> Result<(Vec<Gpu>, String), Error> {
    driver::start()?;
    let version = driver::text(driver::version()?);
    let count = result::device::get_count().map_err(|error| failed("cuDeviceGetCount", None, error))?;
    let gpu = |ordinal: u32| {
        let fail = |call| move |error| failed(call, Some(ordinal), error);
        let device = result::device::get(ordinal as i32).map_err(fail("cuDeviceGet"))?;
        let attribute = |attribute| {
            // SAFETY: the device is one that the driver has just given.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(fail("cuDeviceGetAttribute"))
        };
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        // SAFETY: as above.
        let memory = unsafe { result::device::total_mem(device) }.map_err(fail("cuDeviceTotalMem"))?;
        Ok(Gpu {
            ordinal,
            product: result::device::get_name(device).map_err(fail("cuDeviceGetName"))?,
            arch: Arch((major * 10 + minor) as u32),
            memory_bytes: memory as u64,
        })
    };
    let gpus = (0..u32::try_from(count).unwrap_or(0)).map(gpu).collect::<Result<_, Error>>()?;
    Ok((gpus, version))
}
