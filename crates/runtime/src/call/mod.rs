//! Calls: one entry for every kernel, direction and device.
//!
//! | mode | how | checks indices | waits |
//! |---|---|---|---|
//! | planned | [`run`] with plans | no: the plans have | no |
//! | checked | [`run`] without plans | yes | yes |
//! | deferred | [`run_deferred`] | yes | no: the [`Pending`] does |

mod facts;
mod on_accelerator;
mod on_cpu;
mod operands;
mod pending;
mod prepared;
mod rows;
mod sizes;

use rowloom_codegen::ir::Kernel;
use rowloom_codegen::{Schedule, Verified};

use crate::error::Error;
use crate::plan::RowPlan;
use crate::stream::{Lane, Stream};
use crate::tensor::{AnyView, AnyViewMut};
use crate::workspace::Workspace;
pub(crate) use operands::{Operands, Views, arguments};
pub use pending::Pending;
pub(crate) use prepared::PreparedCalls;
use prepared::{Prepared, prepare};
pub use rows::{PendingPlans, row_shape};
pub(crate) use sizes::{allocate_flat, queue_flat_plans, sizes_of_inputs};
pub use sizes::{allocate_outputs, plans, queue_plans, spec};

/// The arguments of one call of one kernel. `'t` is the tensors' lifetime.
pub struct Call<'a, 't> {
    /// For each input of the kernel its tensors.
    pub inputs: &'a [Vec<AnyView<'t>>],
    /// For each output of the kernel its tensors.
    pub outputs: &'a mut [Vec<AnyViewMut<'t>>],
    /// One plan for each row expression of the kernel. `None`: a kernel that
    /// only gathers checks its indices itself, one that sums builds plans.
    pub plans: Option<&'a [&'a RowPlan]>,
    /// How to run; `None` takes what a record of tuning says, else the default
    /// ([`crate::Device::chosen`]). The CPU has none.
    pub schedule: Option<Schedule>,
    /// Scratch memory to use, with at least [`workspace_bytes`]: the call then
    /// allocates nothing. `None` allocates what is needed.
    pub workspace: Option<&'a mut Workspace>,
}

/// Runs a kernel on the stream's device.
///
/// On a GPU a planned call only queues work; one without plans waits, since it
/// must say whether the indices were right.
///
/// # Errors
/// Every size, type, stride, device and plan that does not fit, before any work;
/// [`Error::WorkspaceTooSmall`], and [`Error::NeedsPlan`] for a kernel that sums with a
/// workspace but without plans; [`Error::Captured`] for what a captured stream cannot
/// do; [`Error::Deferred`] for an earlier call that nobody waited for.
/// [`Error::Index`] for an index out of bounds: outputs are then unspecified.
pub fn run(stream: &Stream, kernel: &Verified, call: Call<'_, '_>) -> Result<(), Error> {
    let Call { inputs, outputs, plans, schedule, workspace } = call;
    let inputs = operands::flat_inputs(kernel, inputs)?;
    let mut outputs = operands::flat_outputs(kernel, outputs)?;
    let operands = Operands { inputs: &inputs, outputs: &mut outputs, plans };
    run_flat(stream, kernel, None, operands, schedule, workspace)
}

/// The same with the tensors one after the other, and what was prepared for earlier calls.
pub(crate) fn run_flat(
    stream: &Stream,
    kernel: &Verified,
    known: Option<&PreparedCalls>,
    operands: Operands<'_, '_, '_>,
    schedule: Option<Schedule>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    stream.unclaimed_error()?;
    if let Some(workspace) = &workspace {
        if !workspace.belongs_to(stream) {
            return Err(Error::Workspace);
        }
        needs_plans(kernel, operands.plans, "a call with a workspace allocates nothing")?;
    }
    let prepared = prepare(stream, kernel, known, operands.inputs, &operands.views(), operands.plans, schedule)?;
    match &stream.0 {
        Lane::Cpu(host) => on_cpu::run(kernel, &prepared, operands, &host.tiling),
        Lane::Accelerator(queue) => {
            let call = on_accelerator::Queued { stream, queue, kernel, prepared: &prepared };
            call.run(&operands, workspace)
        }
    }
}

/// Runs a kernel that checks its indices without waiting for what it finds.
///
/// # Errors
/// As [`run`], but for what the indices hold; [`Error::NeedsPlan`] for a kernel that sums.
pub fn run_deferred<'t>(stream: &Stream, kernel: &Verified, call: Call<'_, 't>) -> Result<Pending<'t, ()>, Error> {
    let Call { inputs, outputs, plans, schedule, workspace } = call;
    let inputs = operands::flat_inputs(kernel, inputs)?;
    let mut outputs = operands::flat_outputs(kernel, outputs)?;
    let operands = Operands { inputs: &inputs, outputs: &mut outputs, plans };
    run_deferred_flat(stream, kernel, None, operands, schedule, workspace)
}

/// The same with the tensors one after the other, and what was prepared for earlier calls.
pub(crate) fn run_deferred_flat<'t>(
    stream: &Stream,
    kernel: &Verified,
    known: Option<&PreparedCalls>,
    operands: Operands<'_, 't, '_>,
    schedule: Option<Schedule>,
    workspace: Option<&mut Workspace>,
) -> Result<Pending<'t, ()>, Error> {
    stream.unclaimed_error()?;
    if workspace.as_ref().is_some_and(|workspace| !workspace.belongs_to(stream)) {
        return Err(Error::Workspace);
    }
    needs_plans(kernel, operands.plans, "a deferred call does not wait")?;
    let prepared = prepare(stream, kernel, known, operands.inputs, &operands.views(), operands.plans, schedule)?;
    match &stream.0 {
        Lane::Cpu(host) => {
            let done = on_cpu::run(kernel, &prepared, operands, &host.tiling);
            Pending::of_host(stream, &kernel.name, done)
        }
        Lane::Accelerator(queue) => {
            let call = on_accelerator::Queued { stream, queue, kernel, prepared: &prepared };
            let word = call.defer(&operands, workspace)?;
            Ok(Pending::queued(stream, kernel, prepared, word, operands.inputs))
        }
    }
}

/// Bytes of workspace that this very call needs, whatever it has.
///
/// # Errors
/// As [`run`].
pub fn workspace_bytes(stream: &Stream, kernel: &Verified, call: &Call<'_, '_>) -> Result<u64, Error> {
    let inputs = operands::flat_inputs(kernel, call.inputs)?;
    let outputs = operands::flat_views(kernel, call.outputs)?;
    workspace_bytes_flat(stream, kernel, None, &inputs, &outputs, call.plans, call.schedule)
}

/// The same with the tensors one after the other.
pub(crate) fn workspace_bytes_flat(
    stream: &Stream,
    kernel: &Verified,
    known: Option<&PreparedCalls>,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    schedule: Option<Schedule>,
) -> Result<u64, Error> {
    needs_plans(kernel, plans, "a call with a workspace allocates nothing")?;
    let prepared = prepare(stream, kernel, known, inputs, outputs, plans, schedule)?;
    Ok(on_accelerator::scratch_bytes(&prepared, plans))
}

/// A call without plans of a kernel that sums builds them, where it may.
fn needs_plans(kernel: &Kernel, plans: Option<&[&RowPlan]>, doing: &'static str) -> Result<(), Error> {
    if plans.is_some() || !kernel.sums() {
        return Ok(());
    }
    let rows: Vec<String> = kernel.rows.iter().map(|row| kernel.row_text(row)).collect();
    Err(Error::NeedsPlan { kernel: kernel.name.clone(), doing, rows_of: rows.join(", ") })
}
