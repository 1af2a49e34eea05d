//! The CUDA driver.

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Error;

/// The engine of GPU `ordinal`; one per process.
pub(crate) fn engine(_ordinal: u32) -> Result<Arc<Engine>, Error> {
    Err(Error::NoDriver {
        searched: vec!["libcuda.so.1".to_owned()],
    })
}
