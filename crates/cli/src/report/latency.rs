//! How long both directions take, in microseconds.
//!
//! Calls that make their own outputs, as a user's do, are timed with that;
//! planned ones write into outputs that exist.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Direction, InputKind};
use rowloom_runtime::baseline::Baseline;
use rowloom_runtime::{AnyTensor, AnyView, Stream};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

use super::case::Case;
use super::clock::{Clock, Queued};
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
    /// Building the plan: the device's time.
    pub plan_us: Option<f64>,
    /// The same as its caller sees it, who allocates it and waits until it is known to be right.
    pub plan_waited_us: Option<f64>,
    /// Timed runs behind each median at this S, where a CPU's time did not allow for all.
    pub fewest_timed_runs: Option<u64>,
    /// Of the host, to queue a planned forward and a planned backward.
    pub host_us: Option<HostTimes>,
    /// The forward in each mode, into outputs that exist.
    pub modes: Option<Modes>,
    /// Scratch memory of a planned backward, and its plan.
    pub workspace_bytes: Option<u64>,
    /// Schedule of forward, backward and the backward's plan.
    pub schedule: Value,
    /// What has chosen each: `default`, or `record` where one of tuning is used.
    pub schedule_from: Value,
    /// Hash of the generated source of each.
    pub source_hash: Value,
}

/// Times of the host, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HostTimes {
    /// To queue a planned forward.
    pub fwd_planned: Option<f64>,
    /// To queue a planned backward.
    pub bwd_planned: Option<f64>,
}

/// A forward into outputs that exist, by mode, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Modes {
    /// Planned: no check, no wait.
    pub planned_us: f64,
    /// Checked: the kernel checks its indices, the call waits and reads whether they were right.
    pub checked_us: f64,
    /// Deferred: the same kernel, and nobody waits. `None` for what sums, which needs a plan.
    pub deferred_us: Option<f64>,
    /// Of the host, to queue a deferred call.
    pub deferred_host_us: Option<f64>,
    /// What the check itself costs the device: deferred less planned.
    pub check_us: Option<f64>,
    /// What waiting costs: checked less deferred.
    pub wait_us: Option<f64>,
}

impl Modes {
    /// Of the three times.
    pub fn new(planned: Queued, checked_us: f64, deferred: Option<Queued>) -> Modes {
        Modes {
            planned_us: planned.us,
            checked_us,
            deferred_us: deferred.map(|deferred| deferred.us),
            deferred_host_us: deferred.and_then(|deferred| deferred.host_us),
            check_us: deferred.map(|deferred| deferred.us - planned.us),
            wait_us: deferred.map(|deferred| checked_us - deferred.us),
        }
    }
}

/// Measured calls of one implementation at one S.
pub const STEPS: u64 = 9;

/// A call as a user makes it: from raw indices, outputs are made.
pub type Run<'r> = &'r dyn Fn(Direction, &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>>;

/// Fills `latency` with the times of calls without plans, whoever makes them.
pub fn unplanned(
    case: &Case,
    inputs: &[Vec<AnyView<'_>>],
    run: Run<'_>,
    clock: &Clock<'_>,
    latency: &mut Latency,
) -> Result<()> {
    let baseline = clock.baseline;
    latency.fwd_us = Some(clock.calls(|| run(Direction::Forward, inputs).map(drop))?);
    // What the forward wrote becomes the gradients: both at once need not fit into memory.
    let mut outputs = run(Direction::Forward, inputs)?;
    fill_ones(baseline, &mut outputs)?;
    let gradients = backward_inputs(case, inputs, &outputs);
    latency.bwd_us = Some(clock.calls(|| run(Direction::Backward, &gradients).map(drop))?);
    drop(gradients);
    drop(outputs);
    let step = || {
        let copies = clone_tables(baseline.stream(), &case.forward, inputs)?;
        let mut outputs = run(Direction::Forward, &with_tables(&case.forward, inputs, &copies))?;
        fill_ones(baseline, &mut outputs)?;
        run(Direction::Backward, &backward_inputs(case, inputs, &outputs)).map(drop)
    };
    latency.fwd_bwd_us = Some(clock.calls(step)?);
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

/// Fills them with ones.
pub fn fill_ones(baseline: &Baseline, tensors: &mut [Vec<AnyTensor>]) -> Result<()> {
    for tensor in tensors.iter_mut().flatten() {
        baseline.fill_ones(&mut tensor.view_mut()).map_err(Error::failed)?;
    }
    Ok(())
}
