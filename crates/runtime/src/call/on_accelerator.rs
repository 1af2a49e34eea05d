//! Calls on an accelerator.

use std::sync::Arc;

use rowloom_codegen::Verified;
use rowloom_codegen::ir::Kernel;

use super::{Operands, Prepared, facts, rows};
use crate::engine::{DeviceMemory, Queue, Region, Submission, Use, Word};
use crate::error::Error;
use crate::grouped;
use crate::launch::{IndexFault, Place, Places, PlanPlace, TensorPlaces, enqueue, error_word, fetch_error_word};
use crate::modules::Ready;
use crate::plan::{RowPlan, fault};
use crate::stream::Stream;
use crate::tensor::AnyView;
use crate::workspace::Workspace;

/// A call that was prepared, on a queue.
pub(super) struct Queued<'a> {
    pub(super) stream: &'a Stream,
    pub(super) queue: &'a Arc<Queue>,
    pub(super) kernel: &'a Verified,
    pub(super) prepared: &'a Prepared,
}

impl Queued<'_> {
    /// Queues the call and, where it checks, waits for what it finds.
    pub(super) fn run(&self, operands: &Operands<'_, '_, '_>, workspace: Option<&mut Workspace>) -> Result<(), Error> {
        let found = self.queue(operands, workspace, error_word)?;
        found.map_or(Ok(()), |found| Err(self.index_error(operands.inputs, found)?))
    }

    /// Queues the call, and a copy of its error word behind it.
    pub(super) fn defer(
        &self,
        operands: &Operands<'_, '_, '_>,
        workspace: Option<&mut Workspace>,
    ) -> Result<Option<Word>, Error> {
        self.queue(operands, workspace, fetch_error_word)
    }

    fn queue<T>(
        &self,
        operands: &Operands<'_, '_, '_>,
        workspace: Option<&mut Workspace>,
        then: impl FnOnce(&Submission<'_>, &Ready, &Places, Option<Region<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Queued { stream, queue, kernel, prepared } = *self;
        let (inputs, outputs, plans) = (operands.inputs, operands.views(), operands.plans);
        let ready = ready(prepared);
        if ready.source.error.is_some() {
            queue.refuse_capture(&format!("checking the indices of {}", kernel.name))?;
        }
        let built = match plans {
            None if kernel.sums() => rows::queue(stream, kernel, &prepared.spec, inputs)?.wait()?,
            None | Some(_) => Vec::new(),
        };
        let queue = &queue.submit()?;
        let mut places = Places { positions: prepared.positions, ..Places::default() };
        match plans {
            Some(plans) => places.plans.extend(plans.iter().map(|plan| plan.place(queue))),
            None => places.plans.extend(built.iter().map(|plan| plan.place(queue))),
        }
        let bytes = places.scratch_bytes(&ready.source);
        let held = workspace.as_ref().map(|workspace| workspace.bytes());
        if let Some(found) = held.filter(|held| *held < bytes) {
            return Err(Error::WorkspaceTooSmall { kernel: kernel.name.clone(), needed: bytes, found });
        }
        let reads = prepared.reads.iter().map(|reads| reads.then_some(Use::Read));
        let arguments = grouped::inputs(kernel, inputs).map(|(input, all)| (&*input.name, all));
        places.inputs = tensors(queue, arguments.zip(reads))?;
        let arguments = grouped::outputs(kernel, &outputs).map(|(output, all)| (&*output.name, all));
        places.outputs = tensors(queue, arguments.map(|argument| (argument, Some(Use::Write))))?;
        let owned;
        let memory = match workspace {
            _ if bytes == 0 => None,
            Some(workspace) => workspace.region(queue, bytes)?,
            None => {
                owned = DeviceMemory::allocate(queue, bytes)?;
                Some(owned.region())
            }
        };
        enqueue(queue, ready, &places, memory)?;
        then(queue, ready, &places, memory)
    }

    /// The error of a bad index that the kernel itself has found.
    fn index_error(&self, inputs: &[AnyView<'_>], found: IndexFault) -> Result<Error, Error> {
        let index = index(self.kernel, inputs, found);
        let value = index.integer(self.stream, found.position)?;
        Ok(fault(self.prepared.term(found), found.position, value))
    }
}

/// The index that an error word names.
fn index<'a, 't>(kernel: &Kernel, inputs: &'a [AnyView<'t>], found: IndexFault) -> &'a AnyView<'t> {
    &inputs[grouped::start(kernel, rowloom_codegen::ir::InputId(found.term as u32))]
}

fn ready(prepared: &Prepared) -> &Ready {
    prepared.ready.as_ref().expect("it was prepared for an accelerator")
}

/// The places of tensors, each argument with its name and its use, for which it is joined
/// to the queue.
fn tensors<'n, 'a, 't: 'a>(
    queue: &Submission<'_>,
    arguments: impl Iterator<Item = ((&'n str, &'a [AnyView<'t>]), Option<Use>)>,
) -> Result<TensorPlaces, Error> {
    let mut places = TensorPlaces::default();
    for ((name, tensors), how) in arguments {
        places.begin();
        for (element, view) in tensors.iter().enumerate() {
            if let Some(how) = how {
                let joined = view.join(queue, how);
                joined.map_err(|error| named(error, &facts::argument(name, tensors.len(), element)))?;
            }
            places.push(Place::of(view));
        }
    }
    Ok(places)
}

/// A capture refuses to wait for whoever else uses a tensor.
fn named(error: Error, argument: &str) -> Error {
    if let Error::Captured { doing } = error {
        return Error::Captured { doing: format!("{doing} that has used {argument}") };
    }
    error
}

/// Bytes of scratch memory of a call; none on the CPU.
pub(super) fn scratch_bytes(prepared: &Prepared, plans: Option<&[&RowPlan]>) -> u64 {
    let Some(ready) = &prepared.ready else { return 0 };
    let plan = |plan: &&RowPlan| PlanPlace {
        arrays: [0; _],
        positions: plan.positions(),
        blocks: plan.blocks(),
        partials: plan.partials(),
    };
    let plans = plans.unwrap_or_default().iter().map(plan).collect();
    Places { positions: prepared.positions, plans, ..Places::default() }.scratch_bytes(&ready.source)
}
