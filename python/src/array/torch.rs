//! PyTorch's tensors, read by their attributes. PyTorch is never imported here: whoever has a
//! tensor has it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use rowloom::ElementType;
use rowloom::codegen::{DType, IntType};

use super::exchange::{Described, Exchange};
use super::{Array, axes_of, wrong_type};
use crate::argument::{Argument, ELEMENT_TYPES, python_name};
use crate::error::Refused;
use crate::place::Place;

/// Types and element types of PyTorch: each is one object, so that comparing is one comparison.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyAny>,
    exchange: Option<Exchange>,
    dtypes: Vec<(Py<PyAny>, ElementType)>,
    strided: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

impl Torch {
    /// Whether it is the type of tensors itself, or that of parameters.
    fn is_plain(&self, ty: &Bound<'_, PyType>) -> bool {
        ty.is(&self.tensor) || ty.is(&self.parameter)
    }

    fn of(module: &Bound<'_, PyAny>) -> PyResult<Torch> {
        let dtypes = ELEMENT_TYPES.iter().map(|&(name, ty)| Ok((module.getattr(name)?.unbind(), ty)));
        let tensor = module.getattr("Tensor")?.cast_into::<PyType>()?;
        Ok(Torch {
            exchange: Exchange::of(&tensor),
            tensor: tensor.unbind(),
            parameter: module.getattr("nn")?.getattr("Parameter")?.unbind(),
            dtypes: dtypes.collect::<PyResult<_>>()?,
            strided: module.getattr("strided")?.unbind(),
        })
    }
}

/// How a plain tensor describes itself, where its PyTorch can; `None` for anything else.
pub(crate) fn exchange(object: &Bound<'_, PyAny>) -> Option<Exchange> {
    let torch = TORCH.get(object.py())?;
    if torch.is_plain(&object.get_type()) { torch.exchange } else { None }
}

/// Whether it is a tensor of PyTorch's own classes, which is known without asking anybody.
pub(super) fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    TORCH.get(object.py()).is_some_and(|torch| torch.is_plain(&object.get_type()))
}

/// What scratch memory holds.
pub(crate) const BYTES: ElementType = ElementType::Int(IntType::U8);

/// PyTorch's object for an element type.
pub(crate) fn dtype(py: Python<'_>, ty: ElementType) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "torch"))?.getattr(python_name(ty))
}

/// PyTorch, if the object is a tensor of it, and whether it is a plain one.
fn torch<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(&'py Torch, bool)>> {
    let py = object.py();
    let ty = object.get_type();
    if let Some(torch) = TORCH.get(py)
        && torch.is_plain(&ty)
    {
        return Ok(Some((torch, true)));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Ok(module) = modules.get_item(intern!(py, "torch")) else { return Ok(None) };
    // While it is being imported it has no tensors, and neither has what stands in for it.
    let Ok(torch) = TORCH.get_or_try_init(py, || Torch::of(&module)) else { return Ok(None) };
    Ok(object.is_instance(torch.tensor.bind(py))?.then_some((torch, torch.is_plain(&ty))))
}

/// A tensor; `None` for another object.
pub(super) fn read<'a>(object: &'a Bound<'a, PyAny>, argument: Argument<'_>) -> Result<Option<Array<'a>>, Refused> {
    let Some((torch, plain)) = torch(object)? else { return Ok(None) };
    if plain
        && let Some(exchange) = torch.exchange
        && let Some(Described { address, ty, place, axes, sizes, strides }) = exchange.describe(object)
    {
        let sizes = sizes.map(i64::unsigned_abs);
        return Ok(Some(Array { address, ty, place, writable: true, axes, sizes, strides, object }));
    }
    by_attributes(torch, object, argument).map(Some)
}

/// A tensor of an older PyTorch, or of a subclass, or one that is refused.
fn by_attributes<'a>(
    torch: &Torch,
    object: &'a Bound<'a, PyAny>,
    argument: Argument<'_>,
) -> Result<Array<'a>, Refused> {
    let py = object.py();
    let dtype = object.getattr(intern!(py, "dtype"))?;
    let Some(&(_, ty)) = torch.dtypes.iter().find(|(known, _)| known.is(&dtype)) else {
        let name = dtype.to_string();
        return Err(wrong_type(argument, name.strip_prefix("torch.").unwrap_or(&name)));
    };
    let ordinal: i64 = object.call_method0(intern!(py, "get_device"))?.extract()?;
    let (place, there) = match u32::try_from(ordinal) {
        Ok(ordinal) => (Place::Cuda(ordinal), intern!(py, "is_cuda")),
        Err(_) => (Place::Cpu, intern!(py, "is_cpu")),
    };
    if !object.getattr(there)?.is_truthy()? {
        return Err(elsewhere(object, argument));
    }
    // Without memory, or without strides, PyTorch raises.
    let raised = |_: PyErr| no_memory(object, argument);
    let address = object.call_method0(intern!(py, "data_ptr")).map_err(raised)?.extract()?;
    let strides = object.call_method0(intern!(py, "stride")).map_err(raised)?;
    let shape = object.getattr(intern!(py, "shape"))?;
    let (sizes, axes) = axes_of(shape.cast::<PyTuple>().map_err(PyErr::from)?, argument)?;
    let (strides, _) = axes_of(strides.cast::<PyTuple>().map_err(PyErr::from)?, argument)?;
    // A size is never negative.
    let sizes = sizes.map(i64::unsigned_abs);
    Ok(Array { address, ty, place, writable: true, axes, sizes, strides, object })
}

/// Whether a tensor of PyTorch stands in memory with the other sign, as a part of a complex one may. No complex type
/// has parts of bf16, or of integers.
pub(crate) fn is_negated(object: &Bound<'_, PyAny>, ty: ElementType) -> PyResult<bool> {
    match ty {
        ElementType::Float(DType::F32 | DType::F16) if torch(object)?.is_some() => {
            object.call_method0(intern!(object.py(), "is_neg"))?.is_truthy()
        }
        ElementType::Float(_) | ElementType::Int(_) | ElementType::U32 => Ok(false),
    }
}

/// What a tensor without memory is.
pub(super) fn no_memory(object: &Bound<'_, PyAny>, argument: Argument<'_>) -> Refused {
    let py = object.py();
    let strided = TORCH.get(py).map(|torch| torch.strided.bind(py));
    let what = match object.getattr(intern!(py, "layout")) {
        Ok(layout) if strided.is_some_and(|strided| !layout.is(strided)) => format!("of layout {layout}"),
        Ok(_) | Err(_) => {
            let name = object.get_type().qualname().map_or_else(|_| "object".to_owned(), |name| name.to_string());
            format!("a {name} without memory")
        }
    };
    Refused::NoMemory { argument: argument.to_string(), what }
}

/// A tensor on no device of ours.
fn elsewhere(object: &Bound<'_, PyAny>, argument: Argument<'_>) -> Refused {
    match object.getattr("device") {
        Ok(device) => Refused::UnknownDevice { argument: argument.to_string(), found: device.to_string() },
        Err(error) => Refused::Python(error),
    }
}
