//! What a kernel is declared as, as Python sees it.

use pyo3::prelude::*;
use rowloom::ElementType;
use rowloom::codegen::ir::{self, FloatType, IndexType, InputKind, OutputKind};
use rowloom::codegen::{Accumulate, Kernel};

use crate::argument::python_name;

/// A number of rows: `numerator * count / denominator`, or `numerator` where `count` is None.
#[pyclass(frozen, get_all, module = "rowloom._native")]
pub struct Extent {
    count: Option<String>,
    numerator: u64,
    denominator: u64,
}

/// An input of a kernel, as declared.
#[pyclass(frozen, get_all, module = "rowloom._native")]
pub struct Input {
    name: String,
    /// `rows`: (S, H). `table`: (rows, chunks·H). `index`: (S,).
    kind: &'static str,
    /// A type parameter such as `T`, or a fixed type such as `float32` or `int64`.
    dtype: String,
    /// Of a table; 1 otherwise.
    chunks: u32,
    /// Of a table; the exclusive bound of an index; None of rows.
    rows: Option<Py<Extent>>,
    /// Of an index: the one value outside its bound that means "no row".
    pad: Option<i64>,
    differentiable: bool,
}

/// An output of a kernel, as declared.
#[pyclass(frozen, get_all, module = "rowloom._native")]
pub struct Output {
    name: String,
    /// `rows`: (S, H). `table`: (rows, chunks·H).
    kind: &'static str,
    dtype: String,
    /// How many tensors of one shape it is, such as 6.
    tensors: usize,
    /// Of a table; 1 otherwise.
    chunks: usize,
    /// Of a table.
    rows: Option<Py<Extent>>,
}

#[pymethods]
impl Extent {
    fn __repr__(&self) -> String {
        let Extent { count, numerator, denominator } = self;
        match count {
            Some(count) => {
                let times = if *numerator == 1 { String::new() } else { format!("{numerator} * ") };
                let over = if *denominator == 1 { String::new() } else { format!(" / {denominator}") };
                format!("Extent({times}{count}{over})")
            }
            None => format!("Extent({numerator})"),
        }
    }
}

#[pymethods]
impl Input {
    fn __repr__(&self) -> String {
        format!("Input({}: {} of {})", self.name, self.kind, self.dtype)
    }
}

#[pymethods]
impl Output {
    fn __repr__(&self) -> String {
        format!("Output({}: {} {} of {})", self.name, self.tensors, self.kind, self.dtype)
    }
}

/// A number of rows of a kernel.
pub(crate) fn extent(py: Python<'_>, kernel: &Kernel, extent: ir::Extent) -> PyResult<Py<Extent>> {
    let ir::Extent { count, numerator, denominator } = extent;
    let count = count.map(|count| kernel.counts[count.index()].clone());
    Py::new(py, Extent { count, numerator, denominator })
}

/// An input of a kernel.
pub(crate) fn input(py: Python<'_>, kernel: &Kernel, input: &ir::Input) -> PyResult<Py<Input>> {
    let name = input.name.clone();
    let input = match input.kind {
        InputKind::Rows(ty) => {
            let dtype = float(kernel, ty);
            Input { name, kind: "rows", dtype, chunks: 1, rows: None, pad: None, differentiable: true }
        }
        InputKind::Table { ty, rows, chunks } => {
            let (dtype, rows) = (float(kernel, ty), Some(extent(py, kernel, rows)?));
            Input { name, kind: "table", dtype, chunks, rows, pad: None, differentiable: true }
        }
        InputKind::Index { ty, bound, pad } => {
            let (dtype, rows) = (int(kernel, ty), Some(extent(py, kernel, bound)?));
            Input { name, kind: "index", dtype, chunks: 1, rows, pad, differentiable: false }
        }
    };
    Py::new(py, input)
}

/// An output of a kernel.
pub(crate) fn output(py: Python<'_>, kernel: &Kernel, output: &ir::Output) -> PyResult<Py<Output>> {
    let (name, tensors) = (output.name.clone(), output.tensors());
    let output = match output.kind {
        OutputKind::Rows(ty) => Output { name, kind: "rows", dtype: float(kernel, ty), tensors, chunks: 1, rows: None },
        OutputKind::Table { ty, rows } => {
            let (dtype, rows) = (float(kernel, ty), Some(extent(py, kernel, rows)?));
            Output { name, kind: "table", dtype, tensors, chunks: output.values.len(), rows }
        }
    };
    Py::new(py, output)
}

/// Row counts that no input of a kernel determines.
pub(crate) fn open_counts(kernel: &Kernel) -> Vec<&str> {
    let told = |at: usize| {
        kernel.inputs.iter().any(|input| match input.kind {
            InputKind::Table { rows, .. } => rows.count.is_some_and(|count| count.index() == at),
            InputKind::Rows(_) | InputKind::Index { .. } => false,
        })
    };
    let open = kernel.counts.iter().enumerate().filter(|(at, _)| !told(*at));
    open.map(|(_, name)| name.as_str()).collect()
}

/// Python's name for an accumulator.
pub(crate) fn accumulate(ty: Accumulate) -> &'static str {
    match ty {
        Accumulate::F32 => "float32",
        Accumulate::F64 => "float64",
    }
}

fn float(kernel: &Kernel, ty: FloatType) -> String {
    match ty {
        FloatType::Param(param) => kernel.floats[param.index()].name.clone(),
        FloatType::Fixed(ty) => python_name(ElementType::Float(ty)).to_owned(),
    }
}

fn int(kernel: &Kernel, ty: IndexType) -> String {
    match ty {
        IndexType::Param(param) => kernel.ints[param.index()].clone(),
        IndexType::Fixed(ty) => python_name(ElementType::Int(ty)).to_owned(),
    }
}
