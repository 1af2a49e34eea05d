//! What a framework does without rowloom: the kernel op by op, each result a
//! tensor of its own in the table's type. For a gather that is `index_select`;
//! its gradient is a scatter-add that rounds after every addition, atomic and in
//! no order on a GPU, as PyTorch's is there. On a CPU it is the same rounding in the order of
//! positions, which is not what PyTorch does on one: `rowloom.prior_art` measures that.

use std::sync::Arc;

use rowloom_codegen::ir::{Direction, FloatType, NodeId, Op, OutputKind};
use rowloom_codegen::{DType, IntType, Verified};
use rowloom_runtime::baseline::Baseline;
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Device, ElementType, Stream};

use crate::error::{Error, Result};

use super::case::{self, Case};
use super::clock::{Clock, is_gpu};
use super::implementation::{Implementation, no_schedule};
use super::latency::{Latency, STEPS, unplanned};
use super::placed::{Inputs, views_mut};
use super::stand_in;

/// The framework path on a CPU or a GPU.
pub struct Framework {
    forward: Arc<Verified>,
    backward: Arc<Verified>,
    counts: Vec<u64>,
    dtype: DType,
    baseline: Baseline,
}

/// What the runtime gives.
type Ran<T> = std::result::Result<T, rowloom_runtime::Error>;

impl Framework {
    /// Of this case; the reason where it cannot run.
    pub fn new(case: &Case, stream: &Stream) -> std::result::Result<Framework, String> {
        let device = stream.device();
        if !is_gpu(&device) && device != Device::cpu() {
            return Err(format!("the framework path runs on a CPU or a GPU, not on {device}"));
        }
        for kernel in case.kernels() {
            if kernel.rows.iter().any(|row| row.offset != 0) {
                return Err(format!("the framework path is not written for the row expressions of {}", kernel.name));
            }
        }
        let baseline = Baseline::new(stream);
        let (forward, backward) = (case.forward.clone(), case.backward.clone());
        Ok(Framework { forward, backward, counts: case.counts.clone(), dtype: case.dtype, baseline })
    }

    fn element(&self, ty: FloatType) -> ElementType {
        ElementType::Float(match ty {
            FloatType::Fixed(dtype) => dtype,
            FloatType::Param(_) => self.dtype,
        })
    }

    /// S and H of a call.
    fn sizes(&self, kernel: &Verified, inputs: &[Vec<AnyView<'_>>]) -> Result<(u64, u64)> {
        use rowloom_codegen::ir::InputKind;
        let (mut positions, mut hidden) = (None, None);
        for (input, views) in kernel.inputs.iter().zip(inputs) {
            match input.kind {
                InputKind::Index { .. } => positions = Some(views[0].row_count()),
                InputKind::Rows(_) => {
                    positions = Some(views[0].row_count());
                    hidden = Some(views[0].column_count());
                }
                InputKind::Table { chunks, .. } => hidden = Some(views[0].column_count() / u64::from(chunks)),
            }
        }
        positions.zip(hidden).ok_or_else(|| Error::failed(format!("no input of {} tells its sizes", kernel.name)))
    }

    /// A call that makes its own outputs.
    fn call(&self, direction: Direction, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        let kernel = self.kernel(direction);
        let stream = self.baseline.stream();
        let (positions, hidden) = self.sizes(kernel, inputs)?;
        let mut outputs = Vec::new();
        for output in &kernel.outputs {
            let (ty, rows, columns) = match output.kind {
                OutputKind::Rows(ty) => (ty, positions, hidden),
                OutputKind::Table { ty, rows } => {
                    (ty, case::rows(rows, &self.counts)?, hidden * output.values.len() as u64)
                }
            };
            let tensor = |_| AnyTensor::uninit(stream, self.element(ty), rows, columns);
            outputs.push((0..output.tensors()).map(tensor).collect::<Ran<_>>().map_err(Error::failed)?);
        }
        self.run(direction, inputs, &mut views_mut(&mut outputs), None)?;
        Ok(outputs)
    }
}

/// One call, op by op.
struct Step<'s> {
    baseline: &'s Baseline,
    kernel: &'s Verified,
    inputs: &'s [Vec<AnyView<'s>>],
    rows: &'s [AnyTensor],
    positions: u64,
    hidden: u64,
}

impl Step<'_> {
    fn positions_into(&self, value: NodeId, out: &mut AnyViewMut<'_>) -> Ran<()> {
        match self.kernel.node(value).op {
            Op::Gather { table, chunk, row } => {
                let first = u64::from(chunk) * self.hidden;
                let table = self.inputs[table.index()][0].columns(first..first + self.hidden)?;
                self.baseline.select(out, table, self.rows[row.index()].view())
            }
            Op::Read { input, element } => {
                out.copy_from(self.baseline.stream(), self.inputs[input.index()][element as usize])
            }
            Op::Cast { value } => self.positions_into(value, out),
            Op::Add { left, right } => {
                let left = self.positions(left, out.as_view().element_type())?;
                let right = self.positions(right, out.as_view().element_type())?;
                self.baseline.add(out, left.view(), right.view())
            }
            Op::SegmentSum { .. } | Op::Zero => unreachable!("the verifier lets no table value be a row"),
        }
    }

    fn positions(&self, value: NodeId, ty: ElementType) -> Ran<AnyTensor> {
        let mut values = AnyTensor::uninit(self.baseline.stream(), ty, self.positions, self.hidden)?;
        self.positions_into(value, &mut values.view_mut())?;
        Ok(values)
    }

    /// Adds a table value to the columns of `sums` from `first` on.
    fn sums_into(&self, value: NodeId, sums: &mut AnyViewMut<'_>, first: u64) -> Ran<()> {
        match self.kernel.node(value).op {
            Op::SegmentSum { value, row } => {
                let rows = self.rows[row.index()].view();
                let ty = sums.as_view().element_type();
                if let Op::Read { input, element } = self.kernel.node(value).op {
                    let values = self.inputs[input.index()][element as usize];
                    if values.element_type() == ty {
                        return self.baseline.scatter_add(sums, first, values, rows);
                    }
                }
                self.baseline.scatter_add(sums, first, self.positions(value, ty)?.view(), rows)
            }
            Op::Add { left, right } => {
                self.sums_into(left, sums, first)?;
                self.sums_into(right, sums, first)
            }
            Op::Cast { value } => self.sums_into(value, sums, first),
            Op::Zero => Ok(()),
            Op::Gather { .. } | Op::Read { .. } => unreachable!("the verifier lets no row be a table value"),
        }
    }
}

impl Implementation for Framework {
    fn name(&self) -> &'static str {
        stand_in::NAME
    }

    fn source(&self) -> String {
        let (place, order) = match is_gpu(&self.baseline.stream().device()) {
            true => ("the GPU", "atomic"),
            false => ("the CPU", "in position order, which rounds as a GPU does, not as PyTorch on a CPU"),
        };
        format!("op by op on {place}: a gather per chunk, a scatter-add in {}, {order}", self.dtype)
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    fn run<'t>(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'t>>],
        outputs: &mut [Vec<AnyViewMut<'t>>],
        schedule: Option<usize>,
    ) -> Result<()> {
        let (kernel, baseline) = (self.kernel(direction), &self.baseline);
        if let Some(number) = schedule {
            return Err(no_schedule(self.name(), kernel, number, 0));
        }
        let (positions, hidden) = self.sizes(kernel, inputs)?;
        let rows = kernel.rows.iter().map(|expr| {
            let index = ElementType::Int(IntType::I64);
            let mut rows = AnyTensor::zeros(baseline.stream(), index, positions, 1)?;
            for &(input, factor) in &expr.terms {
                baseline.add_index(&mut rows.view_mut(), inputs[input.index()][0], factor)?;
            }
            Ok(rows)
        });
        let rows = rows.collect::<Ran<Vec<_>>>().map_err(Error::failed)?;
        let step = Step { baseline, kernel, inputs, rows: &rows, positions, hidden };
        let mut each = || -> Ran<()> {
            for (output, tensors) in kernel.outputs.iter().zip(outputs.iter_mut()) {
                match output.kind {
                    OutputKind::Rows(_) => {
                        for (value, tensor) in output.values.iter().zip(tensors) {
                            step.positions_into(*value, tensor)?;
                        }
                    }
                    OutputKind::Table { .. } => {
                        let sums = &mut tensors[0];
                        sums.fill(baseline.stream(), 0)?;
                        for (chunk, value) in (0u64..).zip(&output.values) {
                            step.sums_into(*value, sums, chunk * hidden)?;
                        }
                    }
                }
            }
            Ok(())
        };
        each().map_err(Error::failed)
    }

    fn schedules(&self, _: Direction, _: &[Vec<AnyView<'_>>], _: &[Vec<AnyView<'_>>]) -> Result<usize> {
        Ok(0)
    }

    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
        let batch = case.batch(&case.forward, positions, clock.seed, 0..case.hidden)?;
        let placed = Inputs::place(self.baseline.stream(), &batch)?;
        let mut latency = Latency::default();
        let call = |direction, inputs: &[Vec<AnyView<'_>>]| self.call(direction, inputs);
        unplanned(case, &placed.views()?, &call, clock, &mut latency)?;
        clock.progress.inc(STEPS - 3);
        Ok(latency)
    }
}
