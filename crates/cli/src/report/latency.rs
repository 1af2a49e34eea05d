//! How long both directions take, in microseconds.
//!
//! On a GPU events around the queued work are read; on a CPU the clock is.
//! Calls that make their own outputs, as a user's do, are timed with that;
//! planned ones write into outputs that exist.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Direction, InputKind};
use rowloom_runtime::{AnyTensor, AnyView, Device, ElementType, Stream, baseline};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

use super::host::{Elements, with_elements};
use super::inputs::Case;
use super::placed::views;

/// Times of one implementation at one S. `None` where there is no such call.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    /// Forward from raw indices.
    pub fwd_us: Option<f64>,
    /// Clone the table, forward, fill the gradients with ones, backward.
    pub fwd_bwd_us: Option<f64>,
    /// Forward with a plan.
    pub fwd_planned_us: Option<f64>,
    /// Backward from raw indices.
    pub bwd_us: Option<f64>,
    /// Backward with a plan.
    pub bwd_planned_us: Option<f64>,
    /// Building the plan.
    pub plan_us: Option<f64>,
    /// Scratch memory of a planned backward, and its plan.
    pub workspace_bytes: Option<u64>,
    /// Schedule of forward and backward.
    pub schedule: Value,
    /// Hash of the generated source of forward and backward.
    pub source_hash: Value,
}

/// How often things are timed, and who is told.
pub struct Clock<'p> {
    /// Runs before the first timed one.
    pub warm_up: usize,
    /// Timed runs.
    pub timed_runs: usize,
    /// Seed of the layout and the table.
    pub seed: u64,
    /// Told of every measured call.
    pub progress: &'p indicatif::ProgressBar,
}

/// Measured calls of one implementation at one S.
pub const STEPS: u64 = 6;

impl Clock<'_> {
    /// Median of the times of `work` on `stream`.
    pub fn median(&self, stream: &Stream, mut work: impl FnMut() -> Result<()>) -> Result<Option<f64>> {
        for _ in 0..self.warm_up {
            work()?;
        }
        // Nothing waits between runs, so that a GPU always has the next one queued: the
        // host's time shows only in calls that wait themselves.
        let mut marks = Vec::with_capacity(self.timed_runs);
        for _ in 0..self.timed_runs {
            let start = stream.record().map_err(Error::failed)?;
            work()?;
            marks.push((start, stream.record().map_err(Error::failed)?));
        }
        let times = marks.iter().map(|(start, end)| end.elapsed_us(start));
        let times = times.collect::<std::result::Result<Vec<f64>, _>>().map_err(Error::failed)?;
        self.progress.inc(1);
        Ok(median(times))
    }
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) {
        let below = times.get(middle.checked_sub(1)?)?;
        return Some((below + times[middle]) / 2.0);
    }
    times.get(middle).copied()
}

/// A call as a user makes it: from raw indices, outputs are made.
pub type Run<'r> = &'r dyn Fn(Direction, &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>>;

/// Fills `latency` with the times of calls without plans, whoever makes them.
pub fn unplanned(
    stream: &Stream,
    case: &Case,
    inputs: &[Vec<AnyView<'_>>],
    run: Run<'_>,
    clock: &Clock<'_>,
    latency: &mut Latency,
) -> Result<()> {
    latency.fwd_us = clock.median(stream, || run(Direction::Forward, inputs).map(drop))?;
    // What the forward wrote becomes the gradients: both at once need not fit into memory.
    let mut outputs = run(Direction::Forward, inputs)?;
    let ones = Ones::new(stream, &outputs)?;
    ones.fill(stream, &mut outputs)?;
    let gradients = backward_inputs(case, inputs, &outputs);
    latency.bwd_us = clock.median(stream, || run(Direction::Backward, &gradients).map(drop))?;
    drop(gradients);
    drop(outputs);
    latency.fwd_bwd_us = clock.median(stream, || {
        let copies = clone_tables(stream, &case.forward, inputs)?;
        let mut outputs = run(Direction::Forward, &with_tables(&case.forward, inputs, &copies))?;
        ones.fill(stream, &mut outputs)?;
        run(Direction::Backward, &backward_inputs(case, inputs, &outputs)).map(drop)
    })?;
    Ok(())
}

/// Inputs of the backward: inputs of the forward by their names, and the gradients of its outputs.
pub fn backward_inputs<'v>(
    case: &Case,
    inputs: &[Vec<AnyView<'v>>],
    gradients: &'v [Vec<AnyTensor>],
) -> Vec<Vec<AnyView<'v>>> {
    let gradients = views(gradients);
    let find = |name: &str| {
        if let Some(input) = case.forward.input(name) {
            return inputs[input.index()].clone();
        }
        let output = case.forward.outputs.iter().position(|output| name.strip_prefix("d_") == Some(&output.name));
        output.map_or_else(Vec::new, |output| gradients[output].clone())
    };
    case.backward.inputs.iter().map(|input| find(&input.name)).collect()
}

fn is_table(kind: InputKind) -> bool {
    matches!(kind, InputKind::Table { .. })
}

fn clone_tables(stream: &Stream, kernel: &Verified, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
    let clone = |view: &AnyView<'_>| {
        let mut copy = AnyTensor::uninit(stream, view.element_type(), view.row_count(), view.column_count())?;
        copy.view_mut().copy_from(stream, *view)?;
        Ok::<_, rowloom_runtime::Error>(copy)
    };
    let of_input = |(number, views): (usize, &Vec<AnyView<'_>>)| {
        if is_table(kernel.inputs[number].kind) { views.iter().map(clone).collect() } else { Ok(Vec::new()) }
    };
    inputs.iter().enumerate().map(of_input).collect::<std::result::Result<_, _>>().map_err(Error::failed)
}

fn with_tables<'v>(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'v>>],
    copies: &'v [Vec<AnyTensor>],
) -> Vec<Vec<AnyView<'v>>> {
    let pick = |(number, inputs): (usize, &Vec<AnyView<'v>>)| {
        if is_table(kernel.inputs[number].kind) {
            copies[number].iter().map(AnyTensor::view).collect()
        } else {
            inputs.clone()
        }
    };
    inputs.iter().enumerate().map(pick).collect()
}

/// How gradients are filled with ones.
pub enum Ones {
    /// By a kernel.
    Gpu,
    /// From a row of ones for each tensor.
    Rows(Vec<Vec<AnyTensor>>),
}

impl Ones {
    /// For tensors of these types and widths.
    pub fn new(stream: &Stream, outputs: &[Vec<AnyTensor>]) -> Result<Ones> {
        if is_gpu(&stream.device()) {
            return Ok(Ones::Gpu);
        }
        let row = |tensor: &AnyTensor| {
            let columns = tensor.columns();
            let ElementType::Float(dtype) = tensor.element_type() else {
                return AnyTensor::zeros(stream, tensor.element_type(), 1, columns);
            };
            let ones = Elements::ones(dtype, columns as usize);
            with_elements!(&ones, values => AnyTensor::from_slice(stream, values, 1, columns))
        };
        let rows = outputs.iter().map(|tensors| tensors.iter().map(row).collect());
        Ok(Ones::Rows(rows.collect::<std::result::Result<_, _>>().map_err(Error::failed)?))
    }

    /// Fills them.
    pub fn fill(&self, stream: &Stream, tensors: &mut [Vec<AnyTensor>]) -> Result<()> {
        let tensors = tensors.iter_mut().flatten();
        match self {
            Ones::Gpu => {
                for tensor in tensors {
                    baseline::fill_ones(stream, &mut tensor.view_mut()).map_err(Error::failed)?;
                }
            }
            Ones::Rows(rows) => {
                for (ones, tensor) in rows.iter().flatten().zip(tensors) {
                    let source = ones.view().expanded(tensor.rows()).map_err(Error::failed)?;
                    tensor.view_mut().copy_from(stream, source).map_err(Error::failed)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether this is a real GPU, not one that a CPU acts out.
pub fn is_gpu(device: &Device) -> bool {
    device.name().starts_with("cuda")
}
