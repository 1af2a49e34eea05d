//! A planned call on a GPU that was made once, to be made again over tensors that lie alike.

mod backward;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rowloom::{Declaration, Error, RowPlan, Stream};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::exchange::Described;
use crate::array::{Matrix, torch};
use crate::call;
use crate::error::Refused;
use crate::items::Plans;
use crate::place::Place;
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
    used: AtomicBool,
    /// Whether somebody must see an op, and whether gradients are to be differentiated.
    watchers: [Py<PyAny>; 2],
}

/// What an input must be: as it was.
pub(crate) struct Argument {
    pub(crate) facts: Described,
    pub(crate) index: Option<Index>,
}

/// An index. With a version it must be the very same object, unedited.
pub(crate) struct Index {
    pub(crate) object: Py<PyAny>,
    pub(crate) version: Option<i64>,
    /// What holds its memory, wherever the object itself may be made to point.
    pub(crate) _memory: Py<PyAny>,
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
    /// gradient that will be differentiated, a plan that was edited. Of a kernel whose backward reads nothing but plans.
    fn backward<'py>(
        &self,
        py: Python<'py>,
        needed: Vec<bool>,
        cotangents: &Bound<'py, PyTuple>,
    ) -> Result<Option<Bound<'py, PyTuple>>, Refused> {
        backward::backward(self, py, needed, cotangents)
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
            used: AtomicBool::new(true),
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
                Some(Index { object, version: Some(_), .. }) => argument.is(object) && *found == known.facts,
                Some(Index { version: None, .. }) | None => {
                    Described { address: known.facts.address, ..*found } == known.facts && found.address != 0
                }
            })
    }

    /// Whether plans, and indices that lie as they did, hold what they did, and other tensors stand in memory as they are.
    pub(crate) fn holds(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let py = arguments.py();
        if self.is_edited(py) {
            return Ok(false);
        }
        for (argument, known) in arguments.iter_borrowed().zip(&self.arguments) {
            let holds = match &known.index {
                Some(Index { version: known @ Some(_), .. }) => version(&argument) == *known,
                Some(Index { version: None, .. }) => true,
                None => !torch::is_negated(&argument, known.facts.ty)?,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether somebody wrote to its plans.
    fn is_edited(&self, py: Python<'_>) -> bool {
        self.states.iter().any(|(state, known)| known.is_some() && version(state.bind(py)) != *known)
    }

    /// Whether one of its plans has this state.
    pub(crate) fn goes_through(&self, state: &Bound<'_, PyAny>) -> bool {
        self.states.iter().any(|(own, _)| own.is(state))
    }

    pub(crate) fn note_use(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it was used since this was asked last.
    pub(crate) fn take_use(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_captured(&self) -> Result<bool, Error> {
        self.stream.is_captured()
    }

    /// Whether it is a call of the same indices, over tensors that lie as those of the other.
    pub(crate) fn is_of_the_tensors_of(&self, other: &Launch) -> bool {
        let alike = |(own, other): (&Argument, &Argument)| match (&own.index, &other.index) {
            (Some(own), Some(other)) if own.version.is_some() && other.version.is_some() => {
                own.object.is(&other.object)
            }
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
        let launch = |scratch: Option<&Matrix<'_>>| {
            let device = self.place.device()?;
            let inputs = call::views(device, inputs.iter())?;
            let mut outputs = call::views_mut(device, outputs.iter())?;
            let mut workspace = workspace(&self.stream, scratch)?;
            let (plans, workspace) = (self.plans(), Some(&mut workspace));
            generated::forward_into(&self.stream, self.declaration, &inputs, Some(&plans), &mut outputs, workspace)
        };
        let known = self.scratch_bytes(&[]);
        let like = arguments.get_borrowed_item(0)?;
        let bytes = with_scratch(py, self.place, known, |bytes| self.scratch(&like, bytes), launch)?;
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
