//! The emulation: generated bodies compiled by g++ and run on fibres.

use crate::accelerator::Accelerator;
use crate::error::Error;

/// Opens an emulated device; blocks and threads are interleaved as `seed` says.
///
/// # Errors
/// [`Error::UnknownDevice`] until there is one.
pub(crate) fn open(_seed: u64) -> Result<Box<dyn Accelerator>, Error> {
    Err(Error::UnknownDevice("emulated".to_owned()))
}
