//! Declared kernels.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rowloom::codegen::Accumulate;
use rowloom::codegen::ir::Order;
use rowloom::{Declaration, Registered};

use crate::error::Refused;
use crate::items::{Counts, Items, Plans};
use crate::metadata::{self, Input, Output};
use crate::recent::Recent;

/// A declared kernel. Immutable, and shared by all threads.
#[pyclass(frozen, module = "rowloom._native")]
pub struct Kernel {
    registered: &'static Registered,
    pub(crate) declaration: &'static Declaration,
    inputs: Py<PyTuple>,
    outputs: Py<PyTuple>,
    row_expressions: Py<PyTuple>,
}

/// By the address of the registered declaration and by order: two kernels of one meaning are one object, so
/// what rowloom has prepared for one is never prepared again.
type Kernels = HashMap<(usize, Order), Py<Kernel>>;

static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

impl Kernel {
    /// The kernel of an order.
    pub(crate) fn of(py: Python<'_>, registered: &'static Registered, order: Order) -> Result<Py<Kernel>, Refused> {
        let declared = (registered.declaration)();
        let key = (std::ptr::from_ref(declared) as usize, order);
        let known = || KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = known().get(&key) {
            return Ok(kernel.clone_ref(py));
        }
        let declaration =
            if order == declared.forward().order { declared } else { Box::leak(Box::new(declared.with_order(order)?)) };
        let made = Py::new(py, Kernel::new(py, registered, declaration)?)?;
        // Of two threads that made it, the first wins.
        Ok(known().entry(key).or_insert(made).clone_ref(py))
    }

    fn new(py: Python<'_>, registered: &'static Registered, declaration: &'static Declaration) -> PyResult<Kernel> {
        let kernel = declaration.forward();
        let inputs = kernel.inputs.iter().map(|input| metadata::input(py, kernel, input));
        let outputs = kernel.outputs.iter().map(|output| metadata::output(py, kernel, output));
        let rows = kernel.rows.iter().map(|row| {
            let indices = PyTuple::new(py, row.terms.iter().map(|(input, _)| input.index()))?;
            let rows = metadata::extent(py, kernel, row.rows)?;
            (kernel.row_text(row), indices, rows).into_pyobject(py)
        });
        Ok(Kernel {
            registered,
            declaration,
            inputs: PyTuple::new(py, inputs.collect::<PyResult<Vec<Py<Input>>>>()?)?.unbind(),
            outputs: PyTuple::new(py, outputs.collect::<PyResult<Vec<Py<Output>>>>()?)?.unbind(),
            row_expressions: PyTuple::new(py, rows.collect::<PyResult<Vec<_>>>()?)?.unbind(),
        })
    }
}

#[pymethods]
impl Kernel {
    #[getter]
    fn name(&self) -> &str {
        self.declaration.name()
    }

    /// As declared, in Rust.
    #[getter]
    fn signature(&self) -> &'static str {
        self.registered.signature
    }

    #[getter]
    fn docs(&self) -> &'static str {
        self.registered.docs
    }

    #[getter]
    fn inputs(&self, py: Python<'_>) -> Py<PyTuple> {
        self.inputs.clone_ref(py)
    }

    #[getter]
    fn outputs(&self, py: Python<'_>) -> Py<PyTuple> {
        self.outputs.clone_ref(py)
    }

    /// Row counts, by name.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.declaration.forward().counts)
    }

    /// Those that no input determines: a call gives them as `counts`.
    #[getter]
    fn open_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, metadata::open_counts(self.declaration.forward()))
    }

    /// For each plan that a call takes, in order: its text, its indices (positions in `inputs`), its rows.
    #[getter]
    fn row_expressions(&self, py: Python<'_>) -> Py<PyTuple> {
        self.row_expressions.clone_ref(py)
    }

    /// Whether the forward sums over positions, so that it needs plans or builds them.
    #[getter]
    fn sums(&self) -> bool {
        self.declaration.forward().sums()
    }

    /// Positions a block of the ordered sum.
    #[getter]
    fn block(&self) -> u32 {
        self.declaration.forward().order.block
    }

    #[getter]
    fn accumulate(&self) -> &'static str {
        metadata::accumulate(self.declaration.forward().order.accumulate)
    }

    /// The same kernel with another order of sums, which is another meaning. Made once each.
    #[pyo3(signature = (*, block=None, accumulate=None))]
    fn with_order(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, PyAny>>,
        accumulate: Option<&Bound<'_, PyAny>>,
    ) -> Result<Py<Kernel>, Refused> {
        let mut order = self.declaration.forward().order;
        if let Some(block) = block {
            let (argument, expected) = ("block".to_owned(), "a number of positions from 1 to 2^32 - 1");
            let wrong = |_| Refused::Number { argument, found: block.to_string(), expected };
            order.block = block.extract().map_err(wrong)?;
        }
        if let Some(accumulate) = accumulate {
            let expected = "float32 or float64";
            order.accumulate = match accumulate.extract() {
                Ok("float32" | "f32") => Accumulate::F32,
                Ok("float64" | "f64") => Accumulate::F64,
                Ok(word) => return Err(Refused::Word { argument: "accumulate", found: word.to_owned(), expected }),
                Err(_) => {
                    let (argument, found) = ("accumulate".to_owned(), accumulate.to_string());
                    return Err(Refused::Number { argument, found, expected });
                }
            };
        }
        Kernel::of(py, self.registered, order)
    }

    /// For each input whether the backward reads it that gives the wanted gradients, a flag for each input.
    fn reads<'py>(&self, py: Python<'py>, wanted: Vec<bool>) -> Result<Bound<'py, PyTuple>, Refused> {
        Ok(PyTuple::new(py, self.declaration.reads(&wanted)?)?)
    }

    /// Runs the kernel into `outputs`.
    #[pyo3(signature = (stream, inputs, outputs, plans, check, counts, allocate=None))]
    #[allow(clippy::too_many_arguments)]
    fn forward(
        &self,
        py: Python<'_>,
        stream: u64,
        inputs: Items<'_>,
        outputs: Items<'_>,
        plans: Option<Plans<'_>>,
        check: &str,
        counts: &Bound<'_, PyDict>,
        allocate: Option<Bound<'_, PyAny>>,
    ) -> Result<(), Refused> {
        let counts = Counts::of(counts)?;
        let deferred = match check {
            "now" => false,
            "deferred" => true,
            word => {
                let found = word.to_owned();
                return Err(Refused::Word { argument: "check", found, expected: "now or deferred" });
            }
        };
        let forward = crate::forward::Forward { declaration: self.declaration, stream, counts, deferred };
        forward.run(py, &inputs, &outputs, plans.as_ref(), allocate.as_ref())
    }

    /// Writes the gradient of each input that is wanted into its place in `gradients`.
    #[allow(clippy::too_many_arguments)]
    fn backward(
        &self,
        py: Python<'_>,
        stream: u64,
        inputs: Items<'_>,
        cotangents: Items<'_>,
        gradients: Items<'_>,
        plans: Option<Plans<'_>>,
        allocate: Option<Bound<'_, PyAny>>,
    ) -> Result<(), Refused> {
        let backward = crate::backward::Backward { declaration: self.declaration, stream };
        backward.run(py, &inputs, &cotangents, &gradients, plans.as_ref(), allocate.as_ref())
    }

    /// Builds the plan of one row expression into `state`. Waits for the stream once.
    fn plan(
        &self,
        py: Python<'_>,
        stream: u64,
        expression: usize,
        indices: Items<'_>,
        counts: &Bound<'_, PyDict>,
        state: Bound<'_, PyAny>,
    ) -> Result<crate::items::Sizes, Refused> {
        crate::plan::build(py, self.declaration, stream, expression, &indices, &Counts::of(counts)?, &state)
    }

    /// The latest planned calls on GPUs, to be launched again; none yet. `watched` says whether somebody must see an op
    /// in place of a launch.
    fn recent(&self, watched: Bound<'_, PyAny>) -> Result<Recent, Refused> {
        Recent::of(self.declaration, watched)
    }

    fn __repr__(&self) -> String {
        let Order { block, accumulate } = self.declaration.forward().order;
        format!("Kernel({}, block={block}, accumulate={})", self.name(), metadata::accumulate(accumulate))
    }
}

/// Every kernel of this module, by name.
#[pyfunction]
pub(crate) fn kernels(py: Python<'_>) -> Result<Vec<Py<Kernel>>, Refused> {
    let of = |registered: &'static Registered| Kernel::of(py, registered, (registered.declaration)().forward().order);
    rowloom::registered().map(of).collect()
}
