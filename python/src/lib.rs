//! The declared kernels of a program as a Python module. A crate with kernels of its own makes its own
//! module with [`add_kernels`]:
//!
//! ```ignore
//! #[pyo3::pymodule]
//! fn my_kernels(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
//!     rowloom_python::add_kernels(module)
//! }
//! ```
//!
//! What Python sees is written down in `rowloom/_native.pyi`.

mod argument;
mod array;
mod backward;
mod borrowed;
mod call;
mod ceilings;
mod compiler;
mod device;
mod error;
mod forward;
mod items;
mod kernel;
mod launch;
mod metadata;
mod place;
mod plan;
mod recent;
mod scratch;

use error::Refused;
use items::PlanData;
use place::Place;
use pyo3::prelude::*;
#[cfg(feature = "module")]
use rowloom_op_adaln as _;

/// Adds every kernel that is declared in the program, and what calls them.
///
/// # Errors
/// What Python says of a module that refuses names.
pub fn add_kernels(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let prefix: std::path::PathBuf = module.py().import("sys")?.getattr("prefix")?.extract()?;
    rowloom_runtime::look_into_python(prefix);
    module.add_class::<metadata::Extent>()?;
    module.add_class::<metadata::Input>()?;
    module.add_class::<metadata::Output>()?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<launch::Launch>()?;
    module.add_class::<recent::Recent>()?;
    module.add_function(wrap_pyfunction!(kernel::kernels, module)?)?;
    module.add_function(wrap_pyfunction!(ceilings::memory_ceilings, module)?)?;
    module.add_function(wrap_pyfunction!(compiler::nvrtc_version, module)?)?;
    module.add_function(wrap_pyfunction!(plan_elements, module)?)?;
    module.add_function(wrap_pyfunction!(repeat_plan, module)?)?;
    module.add_function(wrap_pyfunction!(synchronize, module)?)
}

/// The kernels of rowloom's own ops.
#[cfg(feature = "module")]
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_kernels(module)
}

/// Length of the state of a plan, in int32.
#[pyfunction]
fn plan_elements(positions: u64, rows: u64, block: u32) -> Result<u64, Refused> {
    Ok(plan::elements(positions, rows, block)?)
}

/// The plan of `batch` sequences that share this one: position `b * S + s` has the row of `s`. Waits once.
#[pyfunction]
fn repeat_plan(
    py: Python<'_>,
    stream: u64,
    plan: PlanData<'_>,
    batch: u64,
    state: Bound<'_, PyAny>,
) -> Result<items::Sizes, Refused> {
    plan::repeat(py, stream, &plan, batch, &state)
}

/// Waits for the stream; raises what deferred calls on it have found. `device` is -1 for the CPU.
#[pyfunction]
fn synchronize(py: Python<'_>, device: i64, stream: u64) -> Result<(), Refused> {
    let place = match (device, u32::try_from(device)) {
        (-1, _) => Place::Cpu,
        (_, Ok(ordinal)) => Place::Cuda(ordinal),
        (_, Err(_)) => {
            let (argument, found) = ("device".to_owned(), device.to_string());
            return Err(Refused::Number { argument, found, expected: "the number of a GPU, or -1 for the CPU" });
        }
    };
    Ok(py.detach(|| place.synchronize(stream))?)
}
