//! What a framework does without rowloom, on a GPU: a gather per chunk into a
//! tensor of its own, and an atomic scatter-add in the table's type.

use std::sync::Arc;

use rowloom_codegen::ir::{Direction, FloatType, NodeId, Op, OutputKind};
use rowloom_codegen::{IntType, Verified};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Device, ElementType, Stream, baseline};

use crate::error::{Error, Result};

use super::host::Outputs;
use super::implementation::{Implementation, Loaded};
use super::inputs::{Batch, Case};
use super::latency::{Clock, Latency, STEPS, unplanned};
use super::placed::{Inputs, read};

/// The framework path on a GPU.
pub struct Framework {
    forward: Arc<Verified>,
    backward: Arc<Verified>,
    counts: Vec<u64>,
    dtype: rowloom_codegen::DType,
    hidden: u64,
    stream: Stream,
}

impl Framework {
    /// Of this case; the reason where it has an op that is not written here.
    pub fn new(case: &Case, device: &Device) -> std::result::Result<Framework, String> {
        for kernel in case.kernels() {
            let adds = kernel.nodes.iter().any(|node| matches!(node.op, Op::Add { .. }));
            if adds || kernel.rows.iter().any(|row| row.offset != 0) {
                return Err(format!("the framework path on a GPU is not written for an op of {}", kernel.name));
            }
        }
        let stream = device.stream().map_err(|error| error.to_string())?;
        let (forward, backward) = (case.forward.clone(), case.backward.clone());
        Ok(Framework { forward, backward, counts: case.counts.clone(), dtype: case.dtype, hidden: case.hidden, stream })
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    fn call(&self, direction: Direction, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        let kernel = self.kernel(direction);
        let stream = &self.stream;
        let positions = kernel.inputs.iter().zip(inputs).find(|(input, _)| input.is_index());
        let positions = positions.map_or(0, |(_, tensors)| tensors[0].row_count());
        let rows = kernel.rows.iter().map(|expr| {
            let mut rows = AnyTensor::zeros(stream, ElementType::Int(IntType::I64), positions, 1)?;
            for &(input, factor) in &expr.terms {
                baseline::add_index(stream, &mut rows.view_mut(), inputs[input.index()][0], factor)?;
            }
            Ok::<_, rowloom_runtime::Error>(rows)
        });
        let rows = rows.collect::<std::result::Result<Vec<_>, _>>().map_err(Error::failed)?;
        let step = Step { stream, kernel, inputs, rows: &rows, hidden: self.hidden };
        let outputs = kernel.outputs.iter().map(|output| match output.kind {
            OutputKind::Rows(ty) => {
                let tensor = |value: &NodeId| {
                    let mut out = AnyTensor::uninit(stream, self.element(ty), positions, self.hidden)?;
                    step.positions_into(*value, &mut out.view_mut())?;
                    Ok::<_, rowloom_runtime::Error>(out)
                };
                output.values.iter().map(tensor).collect::<std::result::Result<Vec<_>, _>>()
            }
            OutputKind::Table { ty, rows } => {
                let chunks = output.values.len() as u64;
                let rows = rows.value(&self.counts).unwrap_or(1);
                let mut sums = AnyTensor::zeros(stream, self.element(ty), rows, chunks * self.hidden)?;
                for (chunk, value) in output.values.iter().enumerate() {
                    let first = chunk as u64 * self.hidden;
                    let mut chunk = sums.view_mut().columns(first..first + self.hidden)?;
                    step.sums_into(*value, &mut chunk)?;
                }
                Ok(vec![sums])
            }
        });
        outputs.collect::<std::result::Result<_, _>>().map_err(Error::failed)
    }

    fn element(&self, ty: FloatType) -> ElementType {
        ElementType::Float(match ty {
            FloatType::Fixed(dtype) => dtype,
            FloatType::Param(_) => self.dtype,
        })
    }
}

/// One call, op by op.
struct Step<'s> {
    stream: &'s Stream,
    kernel: &'s Verified,
    inputs: &'s [Vec<AnyView<'s>>],
    rows: &'s [AnyTensor],
    hidden: u64,
}

impl Step<'_> {
    fn positions_into(
        &self,
        value: NodeId,
        out: &mut AnyViewMut<'_>,
    ) -> std::result::Result<(), rowloom_runtime::Error> {
        match self.kernel.node(value).op {
            Op::Gather { table, chunk, row } => {
                let first = u64::from(chunk) * self.hidden;
                let table = self.inputs[table.index()][0].columns(first..first + self.hidden)?;
                baseline::select(self.stream, out, table, self.rows[row.index()].view())
            }
            Op::Read { input, element } => out.copy_from(self.stream, self.inputs[input.index()][element as usize]),
            Op::Cast { value } => self.positions_into(value, out),
            Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => unreachable!("refused when it was made"),
        }
    }

    fn sums_into(&self, value: NodeId, sums: &mut AnyViewMut<'_>) -> std::result::Result<(), rowloom_runtime::Error> {
        match self.kernel.node(value).op {
            Op::SegmentSum { value, row } => {
                let rows = self.rows[row.index()].view();
                if let Op::Read { input, element } = self.kernel.node(value).op {
                    let values = self.inputs[input.index()][element as usize];
                    return baseline::scatter_add(self.stream, sums, values, rows);
                }
                let as_view = sums.as_view();
                let mut values = AnyTensor::uninit(self.stream, as_view.element_type(), rows.row_count(), self.hidden)?;
                self.positions_into(value, &mut values.view_mut())?;
                baseline::scatter_add(self.stream, sums, values.view(), rows)
            }
            Op::Cast { value } => self.sums_into(value, sums),
            Op::Zero => Ok(()),
            Op::Add { .. } | Op::Gather { .. } | Op::Read { .. } => unreachable!("refused when it was made"),
        }
    }
}

impl Implementation for Framework {
    fn name(&self) -> &'static str {
        "index_select"
    }

    fn source(&self) -> String {
        format!("op by op on the GPU: a gather per chunk, an atomic scatter-add in {}", self.dtype)
    }

    fn load<'a>(&'a self, direction: Direction, batch: &'a Batch) -> Result<Box<dyn Loaded + 'a>> {
        Ok(Box::new(Placed { framework: self, direction, inputs: Inputs::place(&self.stream, batch)? }))
    }

    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
        let batch = case.batch(&case.forward, positions, clock.seed, 0..case.hidden);
        let placed = Inputs::place(&self.stream, &batch)?;
        let mut latency = Latency::default();
        let call = |direction, inputs: &[Vec<AnyView<'_>>]| self.call(direction, inputs);
        unplanned(&self.stream, case, &placed.views()?, &call, clock, &mut latency)?;
        clock.progress.inc(STEPS - 3);
        Ok(latency)
    }
}

struct Placed<'a> {
    framework: &'a Framework,
    direction: Direction,
    inputs: Inputs<'a>,
}

impl Loaded for Placed<'_> {
    fn run(&mut self, _schedule: Option<usize>) -> Result<Outputs> {
        let outputs = self.framework.call(self.direction, &self.inputs.views()?)?;
        let read =
            |tensors: &Vec<AnyTensor>| tensors.iter().map(|tensor| read(&self.framework.stream, tensor)).collect();
        outputs.iter().map(read).collect()
    }

    fn schedules(&self) -> usize {
        0
    }
}
