//! How long both directions take, in microseconds.
//!
//! On a GPU events around the queued work are read; on a CPU the clock is.
//! Calls that make their own outputs, as a user's do, are timed with that;
//! planned ones write into outputs that exist.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::InputKind;
use rowloom_runtime::{AnyTensor, AnyView, Call, ElementType, RowPlan, Stream, Workspace, allocate_outputs, run};
use serde_json::Value;

use crate::error::{Error, Result};

use super::host::{Elements, with_elements};
use super::inputs::Case;
use super::ours::{Inputs, plans, views, views_mut};

/// Times of one implementation at one S. `None` where there is no such call.
#[derive(Clone, Debug, Default)]
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
        let mut times = Vec::with_capacity(self.timed_runs);
        for _ in 0..self.timed_runs {
            stream.synchronize().map_err(Error::failed)?;
            let start = stream.record().map_err(Error::failed)?;
            work()?;
            let end = stream.record().map_err(Error::failed)?;
            times.push(end.elapsed_us(&start).map_err(Error::failed)?);
        }
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

/// One direction of a kernel with its inputs where the device reads them.
struct Direct<'a> {
    stream: &'a Stream,
    kernel: &'a Verified,
    counts: Vec<(&'a str, u64)>,
}

impl Direct<'_> {
    fn outputs(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        allocate_outputs(self.stream, self.kernel, inputs, &self.counts, None).map_err(Error::failed)
    }

    fn run_into(
        &self,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &mut [Vec<AnyTensor>],
        plans: Option<&[&RowPlan]>,
        workspace: Option<&mut Workspace>,
    ) -> Result<()> {
        let call = Call { inputs, outputs: &mut views_mut(outputs), plans, schedule: None, workspace };
        run(self.stream, self.kernel, call).map_err(Error::failed)
    }

    /// As a user calls it: outputs are made.
    fn run(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        let mut outputs = self.outputs(inputs)?;
        self.run_into(inputs, &mut outputs, None, None)?;
        Ok(outputs)
    }
}

/// Times of rowloom.
pub fn ours(
    stream: &Stream,
    kernels: (&Verified, &Verified),
    case: &Case,
    positions: u64,
    clock: &Clock<'_>,
) -> Result<Latency> {
    let direct = |kernel| Direct { stream, kernel, counts: case.named_counts(kernel) };
    let (forward, backward) = (direct(kernels.0), direct(kernels.1));
    let batch = case.batch(forward.kernel, positions, clock.seed, 0..case.hidden);
    let placed = Inputs::place(stream, &batch)?;
    let inputs = placed.views()?;
    let mut latency = Latency {
        fwd_us: clock.median(stream, || forward.run(&inputs).map(drop))?,
        plan_us: clock.median(stream, || {
            plans(stream, backward.kernel, case, &indices_first(&inputs, &backward, &forward)).map(drop)
        })?,
        ..Latency::default()
    };
    let mut outputs = forward.outputs(&inputs)?;
    let forward_plans = plans(stream, forward.kernel, case, &inputs)?;
    let forward_plans: Vec<&RowPlan> = forward_plans.iter().collect();
    let mut scratch = Workspace::new(stream);
    latency.fwd_planned_us =
        clock.median(stream, || forward.run_into(&inputs, &mut outputs, Some(&forward_plans), Some(&mut scratch)))?;

    // What the forward wrote becomes the gradients: both at once need not fit into memory.
    let ones = Ones::new(stream, &outputs)?;
    ones.fill(stream, &mut outputs)?;
    {
        let gradients = backward_inputs(&backward, &forward, &inputs, &outputs);
        latency.bwd_us = clock.median(stream, || backward.run(&gradients).map(drop))?;
        let mut sums = backward.outputs(&gradients)?;
        let backward_plans = plans(stream, backward.kernel, case, &gradients)?;
        let plans: Vec<&RowPlan> = backward_plans.iter().collect();
        let mut scratch = Workspace::new(stream);
        latency.bwd_planned_us =
            clock.median(stream, || backward.run_into(&gradients, &mut sums, Some(&plans), Some(&mut scratch)))?;
        let of_plans: u64 = plans.iter().map(|plan| plan.bytes()).sum();
        latency.workspace_bytes = Some(scratch.bytes() + of_plans);
    }
    drop(outputs);
    latency.fwd_bwd_us = clock.median(stream, || {
        let copies = clone_tables(stream, forward.kernel, &inputs)?;
        let mut outputs = forward.run(&with_tables(forward.kernel, &inputs, &copies))?;
        ones.fill(stream, &mut outputs)?;
        backward.run(&backward_inputs(&backward, &forward, &inputs, &outputs)).map(drop)
    })?;
    Ok(latency)
}

/// Inputs of the backward: indices and other inputs of the forward by name, then the gradients.
fn backward_inputs<'v>(
    backward: &Direct<'_>,
    forward: &Direct<'_>,
    inputs: &[Vec<AnyView<'v>>],
    gradients: &'v [Vec<AnyTensor>],
) -> Vec<Vec<AnyView<'v>>> {
    let gradients = views(gradients);
    let find = |name: &str| {
        if let Some(input) = forward.kernel.input(name) {
            return inputs[input.index()].clone();
        }
        let output = forward.kernel.outputs.iter().position(|output| name.strip_prefix("d_") == Some(&output.name));
        output.map_or_else(Vec::new, |output| gradients[output].clone())
    };
    backward.kernel.inputs.iter().map(|input| find(&input.name)).collect()
}

/// The backward's indices in the backward's order; nothing for its other inputs.
fn indices_first<'v>(
    inputs: &[Vec<AnyView<'v>>],
    backward: &Direct<'_>,
    forward: &Direct<'_>,
) -> Vec<Vec<AnyView<'v>>> {
    let find = |name: &str| forward.kernel.input(name).map_or_else(Vec::new, |input| inputs[input.index()].clone());
    backward.kernel.inputs.iter().map(|input| find(&input.name)).collect()
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

/// A row of ones on the device, from which gradients are filled.
struct Ones(Vec<Vec<AnyTensor>>);

impl Ones {
    fn new(stream: &Stream, outputs: &[Vec<AnyTensor>]) -> Result<Ones> {
        let row = |tensor: &AnyTensor| {
            let columns = tensor.columns();
            let ElementType::Float(dtype) = tensor.element_type() else {
                return AnyTensor::zeros(stream, tensor.element_type(), 1, columns);
            };
            let ones = Elements::ones(dtype, columns as usize);
            with_elements!(&ones, values => AnyTensor::from_slice(stream, values, 1, columns))
        };
        let rows = outputs.iter().map(|tensors| tensors.iter().map(row).collect());
        Ok(Ones(rows.collect::<std::result::Result<_, _>>().map_err(Error::failed)?))
    }

    fn fill(&self, stream: &Stream, tensors: &mut [Vec<AnyTensor>]) -> Result<()> {
        for (ones, tensor) in self.0.iter().flatten().zip(tensors.iter_mut().flatten()) {
            let rows = tensor.rows();
            let source = ones.view().expanded(rows).map_err(Error::failed)?;
            tensor.view_mut().copy_from(stream, source).map_err(Error::failed)?;
        }
        Ok(())
    }
}
