//! NumPy's arrays, read by `__array_interface__` and their element type. NumPy is never imported
//! here: whoever has an array has it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use rowloom::ElementType;

use super::{Array, axes_of, wrong_type};
use crate::argument::{Argument, ELEMENT_TYPES, language_name};
use crate::error::Refused;
use crate::place::Place;

static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Whether the object is an array.
fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if let Some(array) = ARRAY.get(py) {
        return Ok(object.get_type().is(array) || object.is_instance(array.bind(py))?);
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Ok(module) = modules.get_item(intern!(py, "numpy")) else { return Ok(false) };
    let found = ARRAY.get_or_try_init(py, || -> PyResult<_> {
        Ok(module.getattr(intern!(py, "ndarray"))?.cast_into::<PyType>()?.unbind())
    });
    // While it is being imported it has no arrays, and neither has what stands in for it.
    let Ok(array) = found else { return Ok(false) };
    object.is_instance(array.bind(py))
}

/// An array; `None` for another object.
pub(super) fn read<'a>(object: &'a Bound<'a, PyAny>, argument: Argument<'_>) -> Result<Option<Array<'a>>, Refused> {
    if !is_array(object)? {
        return Ok(None);
    }
    let py = object.py();
    let ty = element_type(object, argument)?;
    let interface = object.getattr(intern!(py, "__array_interface__"))?.cast_into::<PyDict>().map_err(PyErr::from)?;
    let item = |name| -> PyResult<Bound<'a, PyAny>> { interface.as_any().get_item(name) };
    let (address, read_only): (u64, bool) = item(intern!(py, "data"))?.extract()?;
    let shape = item(intern!(py, "shape"))?.cast_into::<PyTuple>().map_err(PyErr::from)?;
    let (sizes, axes) = axes_of(&shape, argument)?;
    let strides = object.getattr(intern!(py, "strides"))?.cast_into::<PyTuple>().map_err(PyErr::from)?;
    let (mut strides, _) = axes_of(&strides, argument)?;
    let of = ty.bytes() as i64;
    for (at, stride) in strides.iter_mut().enumerate().take(axes) {
        // The stride of one element leads nowhere, and may be any number.
        if sizes[at] > 1 && *stride % of != 0 {
            let axis = ["column", "row", "tensor"][axes - 1 - at];
            return Err(Refused::ByteStride { argument: argument.to_string(), axis, found: *stride, of });
        }
        *stride /= of;
    }
    let sizes = sizes.map(i64::unsigned_abs);
    Ok(Some(Array { address, ty, place: Place::Cpu, writable: !read_only, axes, sizes, strides, object }))
}

/// What it holds. `ml_dtypes` gives NumPy bfloat16, which is known by its name.
fn element_type(object: &Bound<'_, PyAny>, argument: Argument<'_>) -> Result<ElementType, Refused> {
    let py = object.py();
    let dtype = object.getattr(intern!(py, "dtype"))?;
    let name = dtype.getattr(intern!(py, "name"))?;
    let name = name.extract::<&str>()?;
    let Some(&(_, ty)) = ELEMENT_TYPES.iter().find(|(known, _)| *known == name) else {
        return Err(wrong_type(argument, name));
    };
    // `=` is this machine's, `|` has none, and what is no type of NumPy's own says nothing else.
    if !dtype.getattr(intern!(py, "isnative"))?.is_truthy()? {
        return Err(Refused::ByteOrder { argument: argument.to_string(), found: language_name(name) });
    }
    Ok(ty)
}
