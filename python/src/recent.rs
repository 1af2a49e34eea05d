//! Calls like the last ones: of the very same indices, unedited, or of the very same plan, over tensors that
//! lie alike. Nothing is asked of Python twice for them, so that a launch costs the host little more
//! than the launch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowloom::Declaration;
use smallvec::SmallVec;

use crate::array::exchange::Described;
use crate::array::torch;
use crate::device::Place;
use crate::error::Refused;
use crate::items::Plans;
use crate::launch::{Argument, Launch, Output, version};

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
    calls: Mutex<Vec<Remembered>>,
    hits: AtomicU64,
}

/// One call.
struct Remembered {
    launch: Py<Launch>,
    /// The plan that the caller gave; `None` where it was found by the indices.
    plan: Option<Py<PyAny>>,
    /// What calls that are differentiated get.
    kept: Option<Py<PyAny>>,
}

/// A remembered call, what was kept with it, and how the arguments of one like it lie.
type Found = (Py<Launch>, Option<Py<PyAny>>, Facts);

/// How the arguments of a call lie.
type Facts = SmallVec<[Described; 8]>;

#[pymethods]
impl Recent {
    /// The results of a call that is like a remembered one: one tensor or a tuple. What was kept with it where a
    /// gradient is asked for; None where there is no such call.
    fn call<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        plan: Option<&Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>, Refused> {
        let Some((launch, kept, facts)) = self.find(arguments, plan)? else { return Ok(None) };
        self.hits.fetch_add(1, Ordering::Relaxed);
        if self.is_differentiated(arguments)? {
            return Ok(kept.map(|kept| kept.into_bound(py)));
        }
        launch.get().forward(py, arguments, &facts).map(Some)
    }

    /// How many calls were like a remembered one.
    #[getter]
    fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// A planned call on a stream, to be remembered; `plan` is what the caller gave, if not None. None for a call that
    /// cannot be looked at in one step: of an older PyTorch, on the CPU, of indices of inference.
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        stream: u64,
        plans: Plans<'_>,
        outputs: Vec<Output<'_>>,
        plan: Option<&Bound<'_, PyAny>>,
    ) -> Result<Option<Py<Launch>>, Refused> {
        let Some(known) = self.arguments(arguments, plan.is_none())? else { return Ok(None) };
        let watchers = [&self.watched, &self.is_grad_enabled].map(|ask| ask.clone_ref(py));
        Launch::new(py, self.declaration, known, stream, &plans, outputs, watchers).map(Some)
    }

    /// Remembers it, and what calls like it get that are differentiated; None where those are not to be remembered.
    fn keep(&self, launch: Py<Launch>, plan: Option<Py<PyAny>>, kept: Option<Py<PyAny>>) {
        let remembered = Remembered { launch, plan, kept };
        let mut calls = self.calls();
        let mut forgotten: Vec<_> = calls.extract_if(.., |call| call.is_replaced_by(&remembered)).collect();
        calls.insert(0, remembered);
        let most = calls.len().min(MOST);
        forgotten.extend(calls.drain(most..));
        // Tensors go outside of the lock: what ends them may call a kernel.
        drop(calls);
        drop(forgotten);
    }

    /// Forgets all calls, and the tensors that they keep alive.
    fn forget(&self) {
        let forgotten = std::mem::take(&mut *self.calls());
        drop(forgotten);
    }
}

impl Recent {
    /// Of a kernel; `watched` says whether somebody must see an op.
    pub(crate) fn of(declaration: &'static Declaration, watched: Bound<'_, PyAny>) -> Result<Recent, Refused> {
        let py = watched.py();
        let torch = py.import(intern!(py, "torch"))?;
        Ok(Recent {
            declaration,
            indices: declaration.forward().inputs.iter().map(|input| input.is_index()).collect(),
            watched: watched.unbind(),
            is_grad_enabled: torch.getattr(intern!(py, "is_grad_enabled"))?.unbind(),
            calls: Mutex::default(),
            hits: AtomicU64::new(0),
        })
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Remembered>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, arguments: &Bound<'_, PyTuple>, plan: Option<&Bound<'_, PyAny>>) -> Result<Option<Found>, Refused> {
        let py = arguments.py();
        if arguments.len() != self.indices.len() || self.calls().is_empty() {
            return Ok(None);
        }
        let Some(facts) = described(arguments) else { return Ok(None) };
        if self.watched.bind(py).call0()?.is_truthy()? {
            return Ok(None);
        }
        let Place::Cuda(ordinal) = facts[0].place else { return Ok(None) };
        let first = arguments.get_borrowed_item(0)?;
        let stream = torch::exchange(&first).and_then(|exchange| exchange.current_stream(py, ordinal));
        let found = {
            let calls = self.calls();
            let alike = |call: &&Remembered| {
                let planned = match (&call.plan, plan) {
                    (Some(known), Some(given)) => given.is(known),
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                planned && call.launch.get().lies_like(stream, arguments, &facts)
            };
            let found = calls.iter().find(alike);
            found.map(|call| (call.launch.clone_ref(py), call.kept.as_ref().map(|kept| kept.clone_ref(py))))
        };
        let Some((launch, kept)) = found else { return Ok(None) };
        // A replay would not see an edit of the indices: who may say so is asked.
        if !launch.get().holds(arguments)? || plan.is_none() && launch.get().is_captured()? {
            return Ok(None);
        }
        Ok(Some((launch, kept, facts)))
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

    /// What the arguments of a call like this one must be. Plans that were `found` by the indices hold for
    /// these very objects, as long as nobody edits them.
    fn arguments(&self, arguments: &Bound<'_, PyTuple>, found: bool) -> Result<Option<Vec<Argument>>, Refused> {
        let Some(facts) = described(arguments) else { return Ok(None) };
        let mut known = Vec::new();
        for ((argument, &index), facts) in arguments.iter_borrowed().zip(&self.indices).zip(facts) {
            if facts.address == 0 || facts.place == Place::Cpu || facts.sizes[..facts.axes].contains(&0) {
                return Ok(None);
            }
            let index = if index {
                let version = if found {
                    // Indices of inference have none.
                    let Some(version) = version(&argument) else { return Ok(None) };
                    Some(version)
                } else {
                    None
                };
                Some((argument.to_owned().unbind(), version))
            } else {
                None
            };
            known.push(Argument { facts, index });
        }
        Ok(Some(known))
    }
}

impl Remembered {
    /// Whether the other one is of the same tensors, whose indices were edited since.
    fn is_replaced_by(&self, other: &Remembered) -> bool {
        let same_plan = match (&self.plan, &other.plan) {
            (Some(own), Some(other)) => own.is(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_plan && self.launch.get().is_of_the_tensors_of(other.launch.get())
    }
}

/// How plain tensors lie; `None` where one is no plain tensor.
fn described(arguments: &Bound<'_, PyTuple>) -> Option<Facts> {
    arguments.iter_borrowed().map(|argument| torch::exchange(&argument)?.describe(&argument)).collect()
}
