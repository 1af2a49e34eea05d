//! The declared kernels of a program as a Python module.

use pyo3::prelude::*;
use rowloom_op_adaln as _;

/// The kernels of rowloom's own ops.
#[pymodule]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
