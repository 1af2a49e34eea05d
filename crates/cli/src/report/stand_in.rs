//! What a framework does without rowloom, on a CPU: the kernel op by op, each
//! result a tensor of its own in the table's type. For a gather that is
//! `index_select`; its gradient is a scatter-add in position order that rounds
//! after every addition.

use std::ops::AddAssign;
use std::sync::Arc;

use bytemuck::Pod;
use rayon::prelude::*;
use rowloom_codegen::ir::{Direction, FloatType, InputKind, NodeId, Op, OutputKind, Shape};
use rowloom_codegen::{DType, Verified};
use rowloom_runtime::Device;
use serde_json::Value;

use crate::error::{Error, Result};

use super::host::{Elements, HostTensor, Outputs};
use super::implementation::{Implementation, Loaded};
use super::inputs::{Batch, Case};
use super::latency::{Clock, Latency, STEPS};

/// The framework path on the CPU.
pub struct StandIn {
    forward: Arc<Verified>,
    backward: Arc<Verified>,
    dtype: DType,
    counts: Vec<u64>,
}

impl StandIn {
    /// Of this case.
    pub fn new(case: &Case) -> StandIn {
        StandIn {
            forward: case.forward.clone(),
            backward: case.backward.clone(),
            dtype: case.dtype,
            counts: case.counts.clone(),
        }
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }
}

impl Implementation for StandIn {
    fn name(&self) -> &'static str {
        "index_select"
    }

    fn source(&self) -> String {
        format!("op by op on the CPU: a gather per chunk, a scatter-add in {} in position order", self.dtype)
    }

    fn load<'a>(&'a self, direction: Direction, batch: &'a Batch) -> Result<Box<dyn Loaded + 'a>> {
        Ok(Box::new(Interpreter { kernel: self.kernel(direction), batch, dtype: self.dtype, counts: &self.counts }))
    }

    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
        latency(self, case, positions, clock)
    }
}

/// Times of the framework path on the CPU.
fn latency(stand_in: &StandIn, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
    let stream = Device::cpu().stream().map_err(Error::failed)?;
    let batch = case.batch(&case.forward, positions, clock.seed, 0..case.hidden);
    let forward = |batch: &Batch| stand_in.evaluate(Direction::Forward, batch);
    let fwd_us = clock.median(&stream, || forward(&batch).map(drop))?;
    let gradients = cotangents(case, &batch);
    let bwd_us = clock.median(&stream, || stand_in.evaluate(Direction::Backward, &gradients).map(drop))?;
    drop(gradients);
    let fwd_bwd_us = clock.median(&stream, || {
        let mut cloned = batch.clone();
        for (input, tensors) in case.forward.inputs.iter().zip(&mut cloned.inputs) {
            for tensor in tensors.iter_mut().filter(|_| matches!(input.kind, InputKind::Table { .. })) {
                *tensor = HostTensor::new(tensor.rows, tensor.columns, Elements::clone(&tensor.elements));
            }
        }
        drop(forward(&cloned)?);
        stand_in.evaluate(Direction::Backward, &cotangents(case, &batch)).map(drop)
    })?;
    clock.progress.inc(STEPS - 3);
    Ok(Latency { fwd_us, bwd_us, fwd_bwd_us, schedule: Value::Null, source_hash: Value::Null, ..Latency::default() })
}

/// The backward's inputs: the forward's indices, and ones.
fn cotangents(case: &Case, batch: &Batch) -> Batch {
    let inputs = case.backward.inputs.iter().map(|input| {
        if let Some(input) = case.forward.input(&input.name) {
            return batch.inputs[input.index()].clone();
        }
        let filled = |ty, rows: usize, columns: usize| {
            let fill = |_| HostTensor::new(rows, columns, Elements::ones(case.float(ty), rows * columns));
            (0..input.count).map(fill).collect()
        };
        match input.kind {
            InputKind::Rows(ty) => filled(ty, batch.positions, batch.hidden),
            InputKind::Table { ty, rows, chunks } => filled(ty, case.rows(rows), chunks as usize * batch.hidden),
            InputKind::Index { .. } => Vec::new(),
        }
    });
    Batch { positions: batch.positions, hidden: batch.hidden, inputs: inputs.collect() }
}

/// One kernel, op by op.
struct Interpreter<'a> {
    kernel: &'a Verified,
    batch: &'a Batch,
    dtype: DType,
    counts: &'a [u64],
}

impl Loaded for Interpreter<'_> {
    fn run(&mut self, _schedule: Option<usize>) -> Result<Outputs> {
        let rows: Vec<Vec<u64>> = (0..self.kernel.rows.len()).map(|row| self.batch.rows(self.kernel, row)).collect();
        let mut values: Vec<HostTensor> = Vec::with_capacity(self.kernel.nodes.len());
        for node in &self.kernel.nodes {
            let value = match node.op {
                Op::Read { input, element } => self.batch.inputs[input.index()][element as usize].clone(),
                Op::Gather { table, chunk, row } => {
                    gather(&self.batch.inputs[table.index()][0], chunk as usize, self.batch.hidden, &rows[row.index()])
                }
                Op::Cast { value } => values[value.index()].clone(),
                Op::Add { left, right } => add(&values[left.index()], &values[right.index()])?,
                Op::SegmentSum { value, row } => {
                    scatter_add(&values[value.index()], &rows[row.index()], self.rows(node.shape))
                }
                Op::Zero => self.zeros(self.rows(node.shape)),
            };
            values.push(value);
        }
        let outputs = self.kernel.outputs.iter().map(|output| match output.kind {
            OutputKind::Rows(ty) => output.values.iter().map(|value| self.stored(&values, *value, ty)).collect(),
            OutputKind::Table { ty, .. } => {
                let chunks: Vec<HostTensor> =
                    output.values.iter().map(|value| self.stored(&values, *value, ty)).collect();
                vec![side_by_side(&chunks)]
            }
        });
        Ok(outputs.collect())
    }

    fn schedules(&self) -> usize {
        0
    }
}

impl Interpreter<'_> {
    fn rows(&self, shape: Shape) -> usize {
        match shape {
            Shape::Rows => self.batch.positions,
            Shape::Table(rows) => rows.value(self.counts).unwrap_or(1) as usize,
        }
    }

    fn zeros(&self, rows: usize) -> HostTensor {
        HostTensor::new(rows, self.batch.hidden, Elements::zeros(self.dtype, rows * self.batch.hidden))
    }

    /// A value in the type of its output.
    fn stored(&self, values: &[HostTensor], value: NodeId, ty: FloatType) -> HostTensor {
        let value = &values[value.index()];
        match ty {
            FloatType::Fixed(dtype) if dtype != self.dtype => {
                let count = value.rows * value.columns;
                let mut elements = Elements::zeros(dtype, count);
                for at in 0..count {
                    elements.store(at, value.elements.number(at) as f32);
                }
                HostTensor::new(value.rows, value.columns, elements)
            }
            FloatType::Fixed(_) | FloatType::Param(_) => value.clone(),
        }
    }
}

/// Runs `$body` on the floats of a tensor and wraps the vector it gives.
macro_rules! map_floats {
    ($elements:expr, $values:ident => $body:expr) => {
        match $elements {
            Elements::F32($values) => Elements::F32($body),
            Elements::F16($values) => Elements::F16($body),
            Elements::Bf16($values) => Elements::Bf16($body),
            Elements::I64($values) => Elements::I64($values.clone()),
        }
    };
}

/// Positions that one task copies.
const POSITIONS: usize = 64;

fn gather(table: &HostTensor, chunk: usize, hidden: usize, rows: &[u64]) -> HostTensor {
    fn pick<E: Pod + Send + Sync>(table: &[E], width: usize, first: usize, hidden: usize, rows: &[u64]) -> Vec<E> {
        let mut out: Vec<E> = bytemuck::zeroed_vec(rows.len() * hidden);
        out.par_chunks_mut(POSITIONS * hidden).zip(rows.par_chunks(POSITIONS)).for_each(|(out, rows)| {
            for (out, &row) in out.chunks_exact_mut(hidden).zip(rows) {
                out.copy_from_slice(&table[row as usize * width + first..][..hidden]);
            }
        });
        out
    }
    let first = chunk * hidden;
    let elements = map_floats!(&*table.elements, values => pick(values, table.columns, first, hidden, rows));
    HostTensor::new(rows.len(), hidden, elements)
}

fn scatter_add(value: &HostTensor, rows: &[u64], table_rows: usize) -> HostTensor {
    fn sum<E: Pod + AddAssign + Send + Sync>(value: &[E], columns: usize, rows: &[u64], table_rows: usize) -> Vec<E> {
        // A task owns columns, so that every sum runs over positions in their order.
        let width = columns.div_ceil(rayon::current_num_threads()).max(1);
        let starts: Vec<usize> = (0..columns).step_by(width).collect();
        let tiles = starts.into_par_iter().map(|first| {
            let width = width.min(columns - first);
            let mut sums: Vec<E> = bytemuck::zeroed_vec(table_rows * width);
            for (position, &row) in rows.iter().enumerate() {
                let sums = &mut sums[row as usize * width..][..width];
                let value = &value[position * columns + first..][..width];
                for (sum, value) in sums.iter_mut().zip(value) {
                    *sum += *value;
                }
            }
            sums
        });
        side_by_side_rows(&tiles.collect::<Vec<_>>(), table_rows)
    }
    let elements = map_floats!(&*value.elements, values => sum(values, value.columns, rows, table_rows));
    HostTensor::new(table_rows, value.columns, elements)
}

fn add(left: &HostTensor, right: &HostTensor) -> Result<HostTensor> {
    fn sum<E: Copy + AddAssign>(left: &[E], right: &[E]) -> Vec<E> {
        let mut sum = left.to_vec();
        sum.iter_mut().zip(right).for_each(|(sum, right)| *sum += *right);
        sum
    }
    let elements = match (&*left.elements, &*right.elements) {
        (Elements::F32(left), Elements::F32(right)) => Elements::F32(sum(left, right)),
        (Elements::F16(left), Elements::F16(right)) => Elements::F16(sum(left, right)),
        (Elements::Bf16(left), Elements::Bf16(right)) => Elements::Bf16(sum(left, right)),
        _ => return Err(Error::failed("the stand-in adds tensors of one type only")),
    };
    Ok(HostTensor::new(left.rows, left.columns, elements))
}

/// Chunks of one table, (rows, H) each, as one tensor.
fn side_by_side(chunks: &[HostTensor]) -> HostTensor {
    let [first, rest @ ..] = chunks else {
        return HostTensor::new(0, 0, Elements::F32(Vec::new()));
    };
    let (rows, columns) = (first.rows, first.columns * chunks.len());
    if rest.is_empty() {
        return first.clone();
    }
    macro_rules! join {
        ($variant:ident) => {{
            let chunks = chunks.iter().filter_map(|chunk| match &*chunk.elements {
                Elements::$variant(values) => Some(values.as_slice()),
                _ => None,
            });
            Elements::$variant(side_by_side_rows(&chunks.collect::<Vec<_>>(), rows))
        }};
    }
    let elements = match &*first.elements {
        Elements::F32(_) => join!(F32),
        Elements::F16(_) => join!(F16),
        Elements::Bf16(_) => join!(Bf16),
        Elements::I64(_) => join!(I64),
    };
    HostTensor::new(rows, columns, elements)
}

fn side_by_side_rows<E: Copy, P: AsRef<[E]>>(parts: &[P], rows: usize) -> Vec<E> {
    let mut joined = Vec::new();
    for row in 0..rows {
        for part in parts {
            let part = part.as_ref();
            let width = part.len() / rows;
            joined.extend_from_slice(&part[row * width..][..width]);
        }
    }
    joined
}
