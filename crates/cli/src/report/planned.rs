//! Times of rowloom: calls as a user makes them, and calls with plans that write
//! into outputs that exist.

use rowloom_codegen::ir::{Direction, RowId};
use rowloom_codegen::{Subject, Verified};
use rowloom_runtime::tuning::{Chosen, ChosenBy};
use rowloom_runtime::{
    AnyTensor, AnyView, Call, Device, RowPlan, Stream, Workspace, allocate_outputs, plans, queue_plans, run,
    run_deferred, sources, spec, workspace_bytes,
};
use serde_json::json;

use crate::error::{Error, Result};

use super::case::Case;
use super::clock::Clock;
use super::latency::{HostTimes, Latency, Modes, backward_inputs, fill_ones, unplanned};
use super::placed::{Inputs, views, views_mut};

/// One kernel on one stream.
struct Kernel<'a> {
    stream: &'a Stream,
    kernel: &'a Verified,
    counts: Vec<(&'a str, u64)>,
}

impl Kernel<'_> {
    fn outputs(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        allocate_outputs(self.stream, self.kernel, inputs, &self.counts, None).map_err(Error::failed)
    }

    fn plans(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<RowPlan>> {
        plans(self.stream, self.kernel, inputs, &self.counts).map_err(Error::failed)
    }

    /// Queues the work of the plans, for which nobody waits.
    fn queue_plans(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<()> {
        queue_plans(self.stream, self.kernel, inputs, &self.counts).map(drop).map_err(Error::failed)
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

    /// The checked call, for which nobody waits.
    fn run_deferred(
        &self,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &mut [Vec<AnyTensor>],
        workspace: &mut Workspace,
    ) -> Result<()> {
        let outputs = &mut views_mut(outputs)[..];
        let call = Call { inputs, outputs, plans: None, schedule: None, workspace: Some(workspace) };
        let pending = run_deferred(self.stream, self.kernel, call).map_err(Error::failed)?;
        pending.unchecked();
        Ok(())
    }

    /// A workspace for calls with these arguments.
    fn workspace(
        &self,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &mut [Vec<AnyTensor>],
        plans: Option<&[&RowPlan]>,
    ) -> Result<Workspace> {
        let outputs = &mut views_mut(outputs)[..];
        let call = Call { inputs, outputs, plans, schedule: None, workspace: None };
        let bytes = workspace_bytes(self.stream, self.kernel, &call).map_err(Error::failed)?;
        Workspace::with_bytes(self.stream, bytes).map_err(Error::failed)
    }

    fn run(&self, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<Vec<AnyTensor>>> {
        let mut outputs = self.outputs(inputs)?;
        self.run_into(inputs, &mut outputs, None, None)?;
        Ok(outputs)
    }

    /// What a planned call runs; nothing on a CPU.
    fn ran(&self, inputs: &[Vec<AnyView<'_>>], outputs: &[Vec<AnyTensor>], positions: u64) -> Result<Option<Ran>> {
        let device = self.stream.device();
        let Some(arch) = device.arch() else { return Ok(None) };
        let spec = spec(self.kernel, inputs, &views(outputs), true, arch).map_err(Error::failed)?;
        Ran::of(&device, &Subject::Kernel { kernel: self.kernel.clone(), spec }, positions)
    }

    /// What builds the plan of its first row expression.
    fn ran_plan(&self, inputs: &[Vec<AnyView<'_>>], outputs: &[Vec<AnyTensor>], positions: u64) -> Result<Option<Ran>> {
        let device = self.stream.device();
        let Some(arch) = device.arch().filter(|_| !self.kernel.rows.is_empty()) else { return Ok(None) };
        let spec = spec(self.kernel, inputs, &views(outputs), true, arch).map_err(Error::failed)?;
        Ran::of(&device, &Subject::Plan(sources::plan_shape(self.kernel, &spec, RowId(0))), positions)
    }
}

/// A schedule that ran.
struct Ran {
    schedule: String,
    from: ChosenBy,
    source_hash: String,
}

impl Ran {
    fn of(device: &Device, subject: &Subject, positions: u64) -> Result<Option<Ran>> {
        let Some(Chosen { schedule, by }) = device.chosen(subject, positions).map_err(Error::failed)? else {
            return Ok(None);
        };
        let source = subject.generate(&schedule).map_err(Error::failed)?;
        Ok(Some(Ran { schedule: schedule.to_string(), from: by, source_hash: source.hash().to_hex().to_string() }))
    }
}

/// Times of rowloom.
pub fn latency(
    stream: &Stream,
    kernels: (&Verified, &Verified),
    case: &Case,
    positions: u64,
    clock: &Clock<'_>,
) -> Result<Latency> {
    let kernel = |kernel| Kernel { stream, kernel, counts: case.named_counts(kernel) };
    let (forward, backward) = (kernel(kernels.0), kernel(kernels.1));
    let batch = case.batch(forward.kernel, positions, clock.seed, 0..case.hidden)?;
    let placed = Inputs::place(stream, &batch)?;
    let inputs = placed.views()?;
    let mut latency = Latency::default();
    let call = |direction, inputs: &[Vec<AnyView<'_>>]| match direction {
        Direction::Forward => forward.run(inputs),
        Direction::Backward => backward.run(inputs),
    };
    unplanned(case, &inputs, &call, clock, &mut latency)?;

    let mut outputs = forward.outputs(&inputs)?;
    let ran_forward = forward.ran(&inputs, &outputs, positions)?;
    let of_forward = forward.plans(&inputs)?;
    let of_forward: Vec<&RowPlan> = of_forward.iter().collect();
    // What sums by row builds a plan where none is given, and then memory is its own.
    let mut scratch = match forward.kernel.sums() {
        true => None,
        false => Some(forward.workspace(&inputs, &mut outputs, None)?),
    };
    let checked_us = clock.calls(|| forward.run_into(&inputs, &mut outputs, None, scratch.as_mut()))?;
    let deferred = match scratch.as_mut() {
        Some(scratch) => Some(clock.queued(|| forward.run_deferred(&inputs, &mut outputs, scratch))?),
        None => None,
    };
    stream.synchronize().map_err(Error::failed)?;
    let mut scratch = forward.workspace(&inputs, &mut outputs, Some(&of_forward))?;
    let fwd = clock.queued(|| forward.run_into(&inputs, &mut outputs, Some(&of_forward), Some(&mut scratch)))?;
    latency.fwd_planned_us = Some(fwd.us);
    latency.modes = Some(Modes::new(fwd, checked_us, deferred));

    // What the forward wrote becomes the gradients: both at once need not fit into memory.
    fill_ones(clock.baseline, &mut outputs)?;
    let gradients = backward_inputs(case, &inputs, &outputs);
    latency.plan_us = Some(clock.queued(|| backward.queue_plans(&gradients))?.us);
    latency.plan_waited_us = Some(clock.calls(|| backward.plans(&gradients).map(drop))?);
    let of_backward = backward.plans(&gradients)?;
    let of_backward: Vec<&RowPlan> = of_backward.iter().collect();
    let mut sums = backward.outputs(&gradients)?;
    let ran_backward = backward.ran(&gradients, &sums, positions)?;
    let ran_plan = backward.ran_plan(&gradients, &sums, positions)?;
    let mut scratch = backward.workspace(&gradients, &mut sums, Some(&of_backward))?;
    let bwd = clock.queued(|| backward.run_into(&gradients, &mut sums, Some(&of_backward), Some(&mut scratch)))?;
    latency.bwd_planned_us = Some(bwd.us);
    if fwd.host_us.is_some() {
        latency.host_us = Some(HostTimes { fwd_planned: fwd.host_us, bwd_planned: bwd.host_us });
    }
    let of_plans: u64 = of_backward.iter().map(|plan| plan.bytes()).sum();
    latency.workspace_bytes = Some(scratch.bytes() + of_plans);
    let ran = [("forward", ran_forward), ("backward", ran_backward), ("plan", ran_plan)];
    let ran: Vec<(&str, Ran)> = ran.into_iter().filter_map(|(what, ran)| Some((what, ran?))).collect();
    if !ran.is_empty() {
        latency.schedule = ran.iter().map(|(what, ran)| (*what, ran.schedule.clone())).collect();
        latency.schedule_from = ran.iter().map(|(what, ran)| (*what, json!(ran.from))).collect();
        latency.source_hash = ran.iter().map(|(what, ran)| (*what, ran.source_hash.clone())).collect();
    }
    Ok(latency)
}
