//! What compiles kernels here.

use pyo3::prelude::*;
use rowloom_runtime::Nvrtc;

/// Version of the NVRTC that compiles what no cache or pack holds, `(major, minor)`; None where none is found.
/// Looked for once a process, which loads it.
#[pyfunction]
pub(crate) fn nvrtc_version(py: Python<'_>) -> Option<(u32, u32)> {
    py.detach(|| Nvrtc::find().ok().map(Nvrtc::version))
}
