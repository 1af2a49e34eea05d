//! Calls like the last ones: of the very same indices, unedited, over tensors that lie alike. Nothing is
//! asked of Python twice for them, so that a launch costs the host little more than the launch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rowloom::{AnyView, AnyViewMut, Declaration, Error, RowPlan, Stream};
use rowloom_runtime::generated;
use smallvec::SmallVec;

use crate::array::exchange::Described;
use crate::array::{Matrix, torch};
use crate::borrowed;
use crate::call;
use crate::device::Place;
use crate::error::Refused;
use crate::items::Plans;
use crate::kernel::Kernel;
use crate::plan;

/// Calls that are remembered of a kernel.
const MOST: usize = 8;

/// Planned calls of one kernel on GPUs, the latest first.
#[pyclass(frozen, module = "rowloom._native")]
pub(crate) struct Recent {
    declaration: &'static Declaration,
    /// For each input whether it is an index.
    indices: Vec<bool>,
    /// Whether somebody must see an op: a function without arguments.
    watched: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    unsafe_split: Py<PyAny>,
    calls: Mutex<Vec<Arc<Remembered>>>,
    hits: AtomicU64,
}

/// A remembered call, and how the arguments of one like it lie.
type Found = (Arc<Remembered>, SmallVec<[Described; 8]>);

/// One call.
struct Remembered {
    arguments: Vec<Argument>,
    place: Place,
    raw: u64,
    stream: Stream,
    plans: plan::Owned,
    /// What the plans lie in.
    _states: Vec<Py<PyAny>>,
    buffers: Vec<Buffer>,
    kept: Py<PyAny>,
}

/// What an input must be: as it was, and an index the same object with the same content.
struct Argument {
    facts: Described,
    index: Option<(Py<PyAny>, i64)>,
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

/// One output of `Recent::keep`: (input that it is like, tensors, rows and columns of one, type if it is not the input's).
type Output<'py> = (usize, u64, (u64, u64), Option<Bound<'py, PyAny>>);

#[pymethods]
impl Recent {
    /// Of a kernel; `watched` says whether somebody must see an op.
    #[new]
    fn new(kernel: &Bound<'_, Kernel>, watched: Bound<'_, PyAny>) -> Result<Recent, Refused> {
        let py = kernel.py();
        let torch = py.import(intern!(py, "torch"))?;
        let declaration = kernel.get().declaration;
        Ok(Recent {
            declaration,
            indices: declaration.forward().inputs.iter().map(|input| input.is_index()).collect(),
            watched: watched.unbind(),
            is_grad_enabled: torch.getattr(intern!(py, "is_grad_enabled"))?.unbind(),
            unsafe_split: torch.getattr(intern!(py, "unsafe_split"))?.unbind(),
            calls: Mutex::default(),
            hits: AtomicU64::new(0),
        })
    }

    /// The results of a call that is like a remembered one: one tensor or a tuple. What was kept with it where a
    /// gradient is asked for; None where there is no such call.
    fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
    ) -> Result<Option<Bound<'py, PyAny>>, Refused> {
        let Some((remembered, facts)) = self.find(arguments)? else { return Ok(None) };
        if self.is_differentiated(arguments)? {
            return Ok(Some(remembered.kept.bind(py).clone()));
        }
        let results = self.run(py, &remembered, arguments, &facts)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Ok(Some(results))
    }

    /// How many calls were like a remembered one.
    #[getter]
    fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Remembers a planned call on a stream, and an object with it. Nothing is remembered of a call that cannot be
    /// looked at in one step: an older PyTorch, the CPU, indices of inference.
    fn keep(
        &self,
        arguments: &Bound<'_, PyTuple>,
        stream: u64,
        plans: Plans<'_>,
        outputs: Vec<Output<'_>>,
        kept: Bound<'_, PyAny>,
    ) -> Result<(), Refused> {
        if let Some(remembered) = self.remembered(arguments, stream, &plans, outputs, kept)? {
            let mut calls = self.calls();
            let mut forgotten: Vec<_> = calls.extract_if(.., |call| call.replaced_by(&remembered)).collect();
            calls.insert(0, Arc::new(remembered));
            let kept = calls.len().min(MOST);
            forgotten.extend(calls.drain(kept..));
            // Tensors go outside of the lock: what ends them may call a kernel.
            drop(calls);
            drop(forgotten);
        }
        Ok(())
    }

    /// Forgets all calls, and the tensors that they keep alive.
    fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.calls());
        drop(forgotten);
    }
}

impl Recent {
    fn calls(&self) -> MutexGuard<'_, Vec<Arc<Remembered>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, arguments: &Bound<'_, PyTuple>) -> Result<Option<Found>, Refused> {
        let py = arguments.py();
        if arguments.len() != self.indices.len() || self.calls().is_empty() {
            return Ok(None);
        }
        let mut facts: SmallVec<[Described; 8]> = SmallVec::new();
        for argument in arguments.iter_borrowed() {
            let Some(found) = torch::exchange(&argument).and_then(|exchange| exchange.describe(&argument)) else {
                return Ok(None);
            };
            facts.push(found);
        }
        if self.watched.bind(py).call0()?.is_truthy()? {
            return Ok(None);
        }
        let Place::Cuda(ordinal) = facts[0].place else { return Ok(None) };
        let first = arguments.get_borrowed_item(0)?;
        let stream = torch::exchange(&first).and_then(|exchange| exchange.current_stream(py, ordinal));
        let found = {
            let calls = self.calls();
            let alike = |call: &Arc<Remembered>| Some(call.raw) == stream && call.lies_like(arguments, &facts);
            calls.iter().find(|call| alike(call)).cloned()
        };
        let Some(remembered) = found else { return Ok(None) };
        for (argument, known) in arguments.iter_borrowed().zip(&remembered.arguments) {
            match &known.index {
                Some((_, version)) => {
                    if argument.getattr(intern!(py, "_version"))?.extract::<i64>()? != *version {
                        return Ok(None);
                    }
                }
                None => {
                    if argument.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
                        return Ok(None);
                    }
                }
            }
        }
        // A replay would not see an edit of the indices: who may say so is asked.
        if remembered.stream.is_captured()? {
            return Ok(None);
        }
        Ok(Some((remembered, facts)))
    }

    fn is_differentiated(&self, arguments: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let py = arguments.py();
        if !self.is_grad_enabled.bind(py).call0()?.is_truthy()? {
            return Ok(false);
        }
        for (argument, index) in arguments.iter_borrowed().zip(&self.indices) {
            if !index && argument.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        call: &Remembered,
        arguments: &Bound<'py, PyTuple>,
        facts: &[Described],
    ) -> Result<Bound<'py, PyAny>, Refused> {
        let mut buffers: SmallVec<[(Bound<'py, PyAny>, &Buffer); 2]> = SmallVec::new();
        let mut outputs: SmallVec<[Matrix<'_>; 8]> = SmallVec::new();
        for buffer in &call.buffers {
            let like = arguments.get_borrowed_item(buffer.like)?;
            let dtype = buffer.dtype.as_ref().map(|dtype| dtype.bind(py));
            let memory = like.getattr(intern!(py, "new_empty"))?.call(buffer.shape.bind(py), dtype)?;
            let made = torch::exchange(&memory).and_then(|exchange| exchange.describe(&memory));
            let Some(Described { address, ty, place, sizes, .. }) = made else {
                return Err(torch::no_memory(&memory, call::OUTPUT));
            };
            let (rows, columns) = (buffer.rows, sizes[1].unsigned_abs());
            for at in 0..buffer.tensors {
                let address = address + at * rows * columns * ty.bytes();
                outputs.push(Matrix::dense(place, ty, address, rows, columns));
            }
            buffers.push((memory, buffer));
        }
        let inputs: SmallVec<[Matrix<'_>; 8]> = facts.iter().map(Matrix::like).collect();
        let plans: SmallVec<[&RowPlan; 2]> = call.plans.iter().collect();
        py.detach(|| {
            let device = call.place.device()?;
            let inputs = inputs.iter().map(|input| borrowed::view(device, input));
            let inputs: SmallVec<[AnyView<'_>; 8]> = inputs.collect::<Result<_, Error>>()?;
            let outputs = outputs.iter().map(|output| borrowed::view_mut(device, output));
            let mut outputs: SmallVec<[AnyViewMut<'_>; 8]> = outputs.collect::<Result<_, Error>>()?;
            generated::forward_into(&call.stream, self.declaration, &inputs, Some(&plans), &mut outputs, None)
        })?;
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
        if results.len() == 1 {
            return Ok(results.get_item(0)?);
        }
        Ok(results.to_tuple().into_any())
    }

    fn remembered(
        &self,
        arguments: &Bound<'_, PyTuple>,
        raw: u64,
        plans: &Plans<'_>,
        outputs: Vec<Output<'_>>,
        kept: Bound<'_, PyAny>,
    ) -> Result<Option<Remembered>, Refused> {
        let py = arguments.py();
        let mut known = Vec::new();
        for (argument, &index) in arguments.iter_borrowed().zip(&self.indices) {
            let Some(facts) = torch::exchange(&argument).and_then(|exchange| exchange.describe(&argument)) else {
                return Ok(None);
            };
            if facts.address == 0 || facts.place == Place::Cpu || facts.sizes[..facts.axes].contains(&0) {
                return Ok(None);
            }
            let index = if index {
                // Indices of inference have none.
                let Ok(version) = argument.getattr(intern!(py, "_version")) else { return Ok(None) };
                Some((argument.to_owned().unbind(), version.extract()?))
            } else {
                None
            };
            known.push(Argument { facts, index });
        }
        let Some(first) = known.first() else { return Ok(None) };
        let place = first.facts.place;
        let buffer = |(like, tensors, (rows, columns), dtype): Output<'_>| -> PyResult<Buffer> {
            let dtype = dtype.map(|dtype| -> PyResult<Py<PyDict>> {
                let named = PyDict::new(py);
                named.set_item(intern!(py, "dtype"), dtype)?;
                Ok(named.unbind())
            });
            let shape = PyTuple::new(py, [(tensors * rows, columns)])?.unbind();
            Ok(Buffer { like, shape, dtype: dtype.transpose()?, tensors, rows })
        };
        Ok(Some(Remembered {
            place,
            raw,
            stream: place.stream(raw)?,
            plans: plan::plans(self.declaration.forward(), place, plans)?,
            _states: plans.0.iter().map(|plan| plan.state.clone().unbind()).collect(),
            buffers: outputs.into_iter().map(buffer).collect::<PyResult<_>>()?,
            kept: kept.unbind(),
            arguments: known,
        }))
    }
}

impl Remembered {
    /// Whether the other one is of the same tensors, whose indices were edited since.
    fn replaced_by(&self, other: &Remembered) -> bool {
        let alike = |(own, other): (&Argument, &Argument)| match (&own.index, &other.index) {
            (Some((own, _)), Some((other, _))) => own.is(other),
            _ => Described { address: own.facts.address, ..other.facts } == own.facts,
        };
        self.raw == other.raw && self.arguments.iter().zip(&other.arguments).all(alike)
    }

    /// Whether arguments lie as the remembered ones did, and the indices are the very same objects.
    fn lies_like(&self, arguments: &Bound<'_, PyTuple>, facts: &[Described]) -> bool {
        let all = arguments.iter_borrowed().zip(facts).zip(&self.arguments);
        all.into_iter().all(|((argument, found), known)| match &known.index {
            Some((object, _)) => argument.is(object) && *found == known.facts,
            None => Described { address: known.facts.address, ..*found } == known.facts && found.address != 0,
        })
    }
}
