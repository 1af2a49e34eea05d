//! How fast a GPU's memory is, for reports.

use pyo3::prelude::*;
use rowloom::Error;
use rowloom_runtime::baseline::{Baseline, Ceilings};

use crate::error::Refused;
use crate::place::Place;

/// GB/s of reading, writing and copying so many bytes on a GPU, each the best of several plain kernels and the driver's
/// own in so many rounds. Allocates twice the bytes meanwhile.
#[pyfunction]
pub(crate) fn memory_ceilings(
    py: Python<'_>,
    device: u32,
    stream: u64,
    bytes: u64,
    rounds: u32,
) -> Result<(f64, f64, f64), Refused> {
    let found = py.detach(|| -> Result<_, Error> {
        let baseline = Baseline::new(&Place::Cuda(device).stream(stream)?);
        let mut ceilings = Ceilings::new(&baseline, bytes)?.ok_or(Error::OnlyGpu)?;
        for _ in 0..rounds {
            ceilings.round(&baseline)?;
        }
        Ok(ceilings.ceiling())
    })?;
    Ok((found.read_gb_s, found.write_gb_s, found.copy_gb_s))
}
