//! Calls like the last ones: of the very same indices, unedited, or of the very same plan, over tensors that
//! lie alike. Nothing is asked of Python twice for them, so that a launch costs the host little more
//! than the launch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi::PyObject;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowloom::Declaration;
use smallvec::SmallVec;

use crate::array::exchange::Described;
use crate::array::torch;
use crate::error::Refused;
use crate::items::Plans;
use crate::launch::{Argument, Index, Launch, Output};
use crate::place::Place;

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
    planned_hits: AtomicU64,
    generation: AtomicU64,
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
        let results = if self.is_differentiated(arguments)? {
            kept.map(|kept| kept.into_bound(py))
        } else {
            Some(launch.get().forward(py, arguments, &facts)?)
        };
        if results.is_some() {
            launch.get().note_use();
            let hits = if plan.is_none() { &self.hits } else { &self.planned_hits };
            hits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(results)
    }

    /// How many calls without a plan were like a remembered one.
    #[getter]
    fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// How many calls with a plan were.
    #[getter]
    fn planned_hits(&self) -> u64 {
        self.planned_hits.load(Ordering::Relaxed)
    }

    /// How often all was forgotten: what was asked for before must not be remembered after.
    #[getter]
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Whether a call through the plan of this state was like a remembered one since this was asked last.
    fn was_used(&self, state: &Bound<'_, PyAny>) -> bool {
        let calls = self.calls();
        let through = calls.iter().filter(|call| call.launch.get().goes_through(state));
        // Each is asked, since asking is what resets it.
        through.map(|call| call.launch.get().take_use()).filter(|used| *used).count() > 0
    }

    /// A planned call on a stream, to be remembered. `versions` has those of the indices from before they were planned, in
    /// order, and of other inputs None; it is None where the caller gave a plan, which holds for any indices. None for a
    /// call that cannot be looked at in one step: of an older PyTorch, on the CPU, of indices of inference.
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        stream: u64,
        plans: Plans<'_>,
        outputs: Vec<Output<'_>>,
        versions: Option<Vec<Option<i64>>>,
    ) -> Result<Option<Py<Launch>>, Refused> {
        let Some(known) = self.arguments(arguments, versions.as_deref())? else { return Ok(None) };
        let watchers = [&self.watched, &self.is_grad_enabled].map(|ask| ask.clone_ref(py));
        Launch::new(py, self.declaration, known, stream, &plans, outputs, watchers).map(Some)
    }

    /// Remembers it, and what calls like it get that are differentiated; None where those are not to be remembered.
    /// Unless all was forgotten since that generation: then its plan is among that.
    fn keep(&self, launch: Py<Launch>, plan: Option<Py<PyAny>>, kept: Option<Py<PyAny>>, generation: u64) {
        let remembered = Remembered { launch, plan, kept };
        let mut calls = self.calls();
        if self.generation() != generation {
            drop(calls);
            return;
        }
        let mut forgotten: Vec<_> = calls.extract_if(.., |call| call.is_replaced_by(&remembered)).collect();
        calls.insert(0, remembered);
        let most = calls.len().min(MOST);
        forgotten.extend(calls.drain(most..));
        // Tensors go outside of the lock: what ends them may call a kernel.
        drop(calls);
        drop(forgotten);
    }

    /// Forgets the calls through the plan of a state, or all, and the tensors that they keep alive.
    #[pyo3(signature = (state=None))]
    fn forget(&self, state: Option<&Bound<'_, PyAny>>) {
        let mut calls = self.calls();
        let forgotten: Vec<_> = match state {
            Some(state) => calls.extract_if(.., |call| call.launch.get().goes_through(state)).collect(),
            None => {
                self.generation.fetch_add(1, Ordering::SeqCst);
                std::mem::take(&mut *calls)
            }
        };
        drop(calls);
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
            planned_hits: AtomicU64::new(0),
            generation: AtomicU64::new(0),
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
                call.goes_by(plan.map(Bound::as_ptr)) && call.launch.get().lies_like(stream, arguments, &facts)
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

    /// What the arguments of a call like this one must be. With versions, plans were found by the indices, and hold
    /// for these very objects as long as nobody edits them.
    fn arguments(
        &self,
        arguments: &Bound<'_, PyTuple>,
        versions: Option<&[Option<i64>]>,
    ) -> Result<Option<Vec<Argument>>, Refused> {
        let py = arguments.py();
        let Some(facts) = described(arguments) else { return Ok(None) };
        let mut known = Vec::new();
        for (at, (argument, facts)) in arguments.iter_borrowed().zip(facts).enumerate() {
            if facts.address == 0 || facts.place == Place::Cpu || facts.sizes[..facts.axes].contains(&0) {
                return Ok(None);
            }
            let index = if self.indices.get(at) == Some(&true) {
                let version = match versions.map(|versions| versions.get(at)) {
                    None => None,
                    Some(Some(Some(version))) => Some(*version),
                    // An index of inference has none.
                    Some(Some(None) | None) => return Ok(None),
                };
                // An alias: as long as it lives no other storage takes the place of this one.
                let memory = argument.call_method0(intern!(py, "detach"))?.unbind();
                Some(Index { object: argument.to_owned().unbind(), version, _memory: memory })
            } else {
                None
            };
            known.push(Argument { facts, index });
        }
        Ok(Some(known))
    }
}

impl Remembered {
    /// Whether that was the plan that the caller gave; none, where it was found by the indices.
    fn goes_by(&self, plan: Option<*mut PyObject>) -> bool {
        self.plan.as_ref().map(Py::as_ptr) == plan
    }

    /// Whether the other one is of the same tensors, whose indices were edited since.
    fn is_replaced_by(&self, other: &Remembered) -> bool {
        self.goes_by(other.plan.as_ref().map(Py::as_ptr)) && self.launch.get().is_of_the_tensors_of(other.launch.get())
    }
}

/// How plain tensors lie; `None` where one is no plain tensor.
fn described(arguments: &Bound<'_, PyTuple>) -> Option<Facts> {
    arguments.iter_borrowed().map(|argument| torch::exchange(&argument)?.describe(&argument)).collect()
}
