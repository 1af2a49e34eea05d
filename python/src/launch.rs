//! A planned call on a GPU that was made once, to be made again over tensors that lie alike.

use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rowloom::codegen::DType;
use rowloom::{AnyView, AnyViewMut, Declaration, ElementType, Error, RowPlan, Stream};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::exchange::Described;
use crate::array::{Matrix, torch};
use crate::borrowed;
use crate::device::Place;
use crate::error::Refused;
use crate::items::Plans;
use crate::plan;
use crate::scratch::{with_scratch, workspace};

/// A planned call.
#[pyclass(frozen, module = "rowloom._native")]
pub(crate) struct Launch {
    declaration: &'static Declaration,
    arguments: Vec<Argument>,
    place: Place,
    raw: u64,
    stream: Stream,
    plans: plan::Owned,
    /// What the plans lie in, with their versions; those of inference have none.
    states: Vec<(Py<PyAny>, Option<i64>)>,
    buffers: Vec<Buffer>,
    /// For each input how its gradient is made.
    gradients: Vec<(Py<PyTuple>, Py<PyDict>)>,
    /// The type of scratch memory.
    bytes: Py<PyDict>,
    /// For gradients that were wanted before, and for the forward, how much scratch memory they took.
    known_scratch: Mutex<Vec<(Box<[bool]>, u64)>>,
    unsafe_split: Py<PyAny>,
    /// Whether somebody must see an op, and whether gradients are to be differentiated.
    watchers: [Py<PyAny>; 2],
}

/// What an input must be: as it was.
pub(crate) struct Argument {
    pub(crate) facts: Described,
    /// An index; with a version it must be the very same object and unedited.
    pub(crate) index: Option<(Py<PyAny>, Option<i64>)>,
}

/// The memory of one output: its tensors one after the other, which are told apart once the kernel runs.
struct Buffer {
    /// The input whose device, and type where `dtype` is none, it has.
    like: usize,
    /// Arguments of `new_empty`: the shape of all tensors.
    shape: Py<PyTuple>,
    dtype: Option<Py<PyDict>>,
    tensors: u64,
    /// Of one tensor.
    rows: u64,
}

/// An output: (input that it is like, tensors, rows and columns of one, type if it is not the input's).
pub(crate) type Output<'py> = (usize, u64, (u64, u64), Option<Bound<'py, PyAny>>);

type Matrices<'a> = SmallVec<[Matrix<'a>; 8]>;

#[pymethods]
impl Launch {
    /// The results over arguments for which the kernel's `Recent` has just given this: one tensor or a tuple.
    fn run<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> Result<Bound<'py, PyAny>, Refused> {
        let described = |argument: Borrowed<'_, 'py, PyAny>| torch::exchange(&argument)?.describe(&argument);
        let facts: Option<SmallVec<[Described; 8]>> = arguments.iter_borrowed().map(described).collect();
        match facts {
            Some(facts) if facts.len() == self.arguments.len() => self.forward(py, arguments, &facts),
            Some(_) | None => Err(self.misused()),
        }
    }

    /// The gradient of each input that needs one and has one, from the cotangents of all results; None where that
    /// takes more than a launch: cotangents that are missing or must be copied first, another stream, a
    /// gradient that will be differentiated. Of a kernel whose backward reads nothing but plans.
    fn backward<'py>(
        &self,
        py: Python<'py>,
        needed: Vec<bool>,
        cotangents: &Bound<'py, PyTuple>,
    ) -> Result<Option<Bound<'py, PyTuple>>, Refused> {
        for watcher in &self.watchers {
            if watcher.bind(py).call0()?.is_truthy()? {
                return Ok(None);
            }
        }
        if needed.len() != self.arguments.len() {
            return Err(self.misused());
        }
        let differentiable = |(argument, needed): (&Argument, bool)| needed && argument.index.is_none();
        let wanted: SmallVec<[bool; 8]> = self.arguments.iter().zip(needed).map(differentiable).collect();
        let Some(given) = self.cotangents(cotangents)? else { return Ok(None) };
        let like = cotangents.get_borrowed_item(0)?;
        let mut memories: SmallVec<[Option<Bound<'py, PyAny>>; 8]> = SmallVec::new();
        let mut gradients: SmallVec<[Option<Matrix<'_>>; 8]> = SmallVec::new();
        for ((argument, (shape, dtype)), wanted) in self.arguments.iter().zip(&self.gradients).zip(&wanted) {
            if !wanted {
                memories.push(None);
                gradients.push(None);
                continue;
            }
            let memory = like.getattr(intern!(py, "new_empty"))?.call(shape.bind(py), Some(dtype.bind(py)))?;
            let Matrix { rows, columns, ty, .. } = Matrix::like(&argument.facts);
            gradients.push(Some(Matrix::dense(self.place, ty, address(&memory)?, rows, columns)));
            memories.push(Some(memory));
        }
        let known = self.scratch_bytes(&wanted);
        let call = |scratch: Option<&Matrix<'_>>| self.differentiate(&given, &gradients, scratch);
        let bytes = with_scratch(py, self.place, known, |bytes| self.scratch(&like, bytes), call)?;
        if bytes != known {
            self.note_scratch_bytes(&wanted, bytes);
        }
        Ok(Some(PyTuple::new(py, memories)?))
    }
}

impl Launch {
    pub(crate) fn new(
        py: Python<'_>,
        declaration: &'static Declaration,
        arguments: Vec<Argument>,
        raw: u64,
        plans: &Plans<'_>,
        outputs: Vec<Output<'_>>,
        watchers: [Py<PyAny>; 2],
    ) -> Result<Py<Launch>, Refused> {
        let named = |dtype: Bound<'_, PyAny>| -> PyResult<Py<PyDict>> {
            let named = PyDict::new(py);
            named.set_item(intern!(py, "dtype"), dtype)?;
            Ok(named.unbind())
        };
        let buffer = |(like, tensors, (rows, columns), dtype): Output<'_>| -> PyResult<Buffer> {
            let shape = PyTuple::new(py, [(tensors * rows, columns)])?.unbind();
            Ok(Buffer { like, shape, dtype: dtype.map(named).transpose()?, tensors, rows })
        };
        let gradient = |argument: &Argument| {
            let Described { axes, sizes, ty, .. } = argument.facts;
            let shape = PyTuple::new(py, [PyTuple::new(py, &sizes[..axes])?])?.unbind();
            Ok((shape, named(torch::dtype(py, ty)?)?))
        };
        let place = arguments.first().map_or(Place::Cpu, |argument| argument.facts.place);
        let launch = Launch {
            declaration,
            place,
            raw,
            stream: place.stream(raw)?,
            plans: plan::plans(declaration.forward(), place, plans)?,
            states: plans.0.iter().map(|plan| (plan.state.clone().unbind(), version(&plan.state))).collect(),
            buffers: outputs.into_iter().map(buffer).collect::<PyResult<_>>()?,
            gradients: arguments.iter().map(gradient).collect::<PyResult<_>>()?,
            bytes: named(torch::dtype(py, torch::BYTES)?)?,
            unsafe_split: py.import(intern!(py, "torch"))?.getattr(intern!(py, "unsafe_split"))?.unbind(),
            known_scratch: Mutex::default(),
            arguments,
            watchers,
        };
        Ok(Py::new(py, launch)?)
    }

    /// Whether arguments lie as they did, and indices that plans were found by are the very same objects.
    pub(crate) fn lies_like(&self, stream: Option<u64>, arguments: &Bound<'_, PyTuple>, facts: &[Described]) -> bool {
        let all = arguments.iter_borrowed().zip(facts).zip(&self.arguments);
        stream == Some(self.raw)
            && all.into_iter().all(|((argument, found), known)| match &known.index {
                Some((object, Some(_))) => argument.is(object) && *found == known.facts,
                Some((_, None)) | None => {
                    Described { address: known.facts.address, ..*found } == known.facts && found.address != 0
                }
            })
    }

    /// Whether plans, and indices that lie as they did, hold what they did, and other tensors stand in memory as they are.
    pub(crate) fn holds(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let py = arguments.py();
        if self.states.iter().any(|(state, known)| known.is_some() && version(state.bind(py)) != *known) {
            return Ok(false);
        }
        for (argument, known) in arguments.iter_borrowed().zip(&self.arguments) {
            let holds = match &known.index {
                Some((_, known @ Some(_))) => version(&argument) == *known,
                Some((_, None)) => true,
                None => !is_negated(&argument, known.facts.ty)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn is_captured(&self) -> Result<bool, Error> {
        self.stream.is_captured()
    }

    /// Whether it is a call of the same indices, over tensors that lie as those of the other.
    pub(crate) fn is_of_the_tensors_of(&self, other: &Launch) -> bool {
        let alike = |(own, other): (&Argument, &Argument)| match (&own.index, &other.index) {
            (Some((own, Some(_))), Some((other, Some(_)))) => own.is(other),
            _ => Described { address: own.facts.address, ..other.facts } == own.facts,
        };
        self.raw == other.raw && self.arguments.iter().zip(&other.arguments).all(alike)
    }

    pub(crate) fn forward<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        facts: &[Described],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let mut buffers: SmallVec<[(Bound<'py, PyAny>, &Buffer); 2]> = SmallVec::new();
        let mut outputs = Matrices::new();
        for buffer in &self.buffers {
            let like = arguments.get_borrowed_item(buffer.like)?;
            let dtype = buffer.dtype.as_ref().map(|dtype| dtype.bind(py));
            let memory = like.getattr(intern!(py, "new_empty"))?.call(buffer.shape.bind(py), dtype)?;
            let Some(Described { address, ty, place, sizes, .. }) =
                torch::exchange(&memory).and_then(|exchange| exchange.describe(&memory))
            else {
                return Err(self.misused());
            };
            let (rows, columns) = (buffer.rows, sizes[1].unsigned_abs());
            for at in 0..buffer.tensors {
                let address = address + at * rows * columns * ty.bytes();
                outputs.push(Matrix::dense(place, ty, address, rows, columns));
            }
            buffers.push((memory, buffer));
        }
        let inputs: Matrices<'_> = facts.iter().map(Matrix::like).collect();
        let call = |scratch: Option<&Matrix<'_>>| {
            let device = self.place.device()?;
            let inputs = inputs.iter().map(|input| borrowed::view(device, input));
            let inputs: SmallVec<[AnyView<'_>; 8]> = inputs.collect::<Result<_, Error>>()?;
            let outputs = outputs.iter().map(|output| borrowed::view_mut(device, output));
            let mut outputs: SmallVec<[AnyViewMut<'_>; 8]> = outputs.collect::<Result<_, Error>>()?;
            let mut workspace = workspace(&self.stream, scratch)?;
            let (plans, workspace) = (self.plans(), Some(&mut workspace));
            generated::forward_into(&self.stream, self.declaration, &inputs, Some(&plans), &mut outputs, workspace)
        };
        let known = self.scratch_bytes(&[]);
        let like = arguments.get_borrowed_item(0)?;
        let bytes = with_scratch(py, self.place, known, |bytes| self.scratch(&like, bytes), call)?;
        if bytes != known {
            self.note_scratch_bytes(&[], bytes);
        }
        // The kernel runs; only now are its outputs told apart.
        let results = PyList::empty(py);
        for (memory, buffer) in buffers {
            if buffer.tensors == 1 {
                results.append(memory)?;
                continue;
            }
            for tensor in self.unsafe_split.bind(py).call1((memory, buffer.rows))?.try_iter()? {
                results.append(tensor?)?;
            }
        }
        Ok(if results.len() == 1 { results.get_item(0)? } else { results.to_tuple().into_any() })
    }

    /// Launches the backward.
    fn differentiate(
        &self,
        cotangents: &[Matrix<'_>],
        gradients: &[Option<Matrix<'_>>],
        scratch: Option<&Matrix<'_>>,
    ) -> Result<(), Error> {
        let device = self.place.device()?;
        let inputs: Matrices<'_> = self.arguments.iter().map(|argument| Matrix::like(&argument.facts)).collect();
        // Whoever remembered this knows that its backward reads plans alone, and of indices their types.
        let inputs = inputs.iter().zip(&self.arguments).map(|(input, argument)| match argument.index {
            Some(_) => borrowed::view(device, input).map(Some),
            None => Ok(None),
        });
        let inputs: SmallVec<[Option<AnyView<'_>>; 8]> = inputs.collect::<Result<_, Error>>()?;
        let cotangents = cotangents.iter().map(|cotangent| borrowed::view(device, cotangent));
        let cotangents: SmallVec<[AnyView<'_>; 8]> = cotangents.collect::<Result<_, Error>>()?;
        let gradients = gradients.iter().map(|gradient| match gradient {
            Some(gradient) => borrowed::view_mut(device, gradient).map(Some),
            None => Ok(None),
        });
        let gradients: SmallVec<[Option<AnyViewMut<'_>>; 8]> = gradients.collect::<Result<_, Error>>()?;
        let plans = self.plans();
        let arguments = generated::Arguments { inputs: &inputs, cotangents: &cotangents, plans: Some(&plans) };
        let mut workspace = workspace(&self.stream, scratch)?;
        generated::backward_into(&self.stream, self.declaration, arguments, gradients, Some(&mut workspace))
    }

    /// Memory from the allocator of a tensor.
    fn scratch<'py>(&self, like: &Bound<'py, PyAny>, bytes: u64) -> PyResult<Bound<'py, PyAny>> {
        let py = like.py();
        like.getattr(intern!(py, "new_empty"))?.call((bytes,), Some(self.bytes.bind(py)))
    }

    /// Scratch memory that the backward of these gradients is known to need; of none, the forward.
    fn scratch_bytes(&self, wanted: &[bool]) -> u64 {
        let known = self.known_scratch.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(gradients, _)| **gradients == *wanted).map_or(0, |(_, bytes)| *bytes)
    }

    fn note_scratch_bytes(&self, wanted: &[bool], bytes: u64) {
        let mut known = self.known_scratch.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter_mut().find(|(gradients, _)| **gradients == *wanted) {
            Some((_, known)) => *known = bytes,
            None => known.push((wanted.into(), bytes)),
        }
    }

    /// Cotangents that a kernel can read as they are, on the stream of the forward.
    fn cotangents<'a>(&self, cotangents: &'a Bound<'_, PyTuple>) -> Result<Option<Matrices<'a>>, Refused> {
        let py = cotangents.py();
        let mut matrices = Matrices::new();
        for cotangent in cotangents.iter_borrowed() {
            let Some(exchange) = torch::exchange(&cotangent) else { return Ok(None) };
            let Some(facts) = exchange.describe(&cotangent) else { return Ok(None) };
            let Described { axes, sizes, strides, place, address, .. } = facts;
            let readable = axes == 2 && (strides[1] == 1 || sizes[1] == 1) && address != 0;
            if !readable || place != self.place || is_negated(&cotangent, facts.ty)? {
                return Ok(None);
            }
            if matrices.is_empty() {
                let Place::Cuda(ordinal) = place else { return Ok(None) };
                if exchange.current_stream(py, ordinal) != Some(self.raw) {
                    return Ok(None);
                }
            }
            matrices.push(Matrix::of(facts));
        }
        Ok((!matrices.is_empty()).then_some(matrices))
    }

    fn plans(&self) -> SmallVec<[&RowPlan; 2]> {
        self.plans.iter().collect()
    }

    fn misused(&self) -> Refused {
        let expected = self.arguments.len();
        Error::Arguments {
            kernel: self.declaration.name().to_owned(),
            what: "inputs that lie alike",
            expected,
            found: 0,
        }
        .into()
    }
}

/// How often a tensor was edited; `None` for one made in inference mode.
pub(crate) fn version(tensor: &Bound<'_, PyAny>) -> Option<i64> {
    tensor.getattr(intern!(tensor.py(), "_version")).ok()?.extract().ok()
}

/// Whether a tensor stands in memory with the other sign, as a part of a complex one may; there is no complex bf16.
fn is_negated(tensor: &Bound<'_, PyAny>, ty: ElementType) -> PyResult<bool> {
    if ty == ElementType::Float(DType::Bf16) {
        return Ok(false);
    }
    tensor.call_method0(intern!(tensor.py(), "is_neg"))?.is_truthy()
}

/// Of memory that was made just now.
fn address(memory: &Bound<'_, PyAny>) -> Result<u64, Refused> {
    Ok(memory.call_method0(intern!(memory.py(), "data_ptr"))?.extract()?)
}
