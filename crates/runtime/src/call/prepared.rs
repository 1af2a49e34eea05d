//! What a call needs to know, found once for all calls that look alike.
//!
//! A call is prepared from its kernel and from numbers that its tensors and plans
//! show: types, sizes, strides, alignments, devices. Their list is the call's
//! signature. Equal signatures have equal Specs and pass the same checks, so a
//! call that was prepared before is found by comparing numbers.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rowloom_codegen::cuda::Param;
use rowloom_codegen::ir::InputKind;
use rowloom_codegen::spec::Access;
use rowloom_codegen::{Arch, Schedule, Source, Spec, Verified};
use smallvec::SmallVec;

use super::facts::Sizes;
use super::rows;
use super::sizes::{check_devices, sizes};
use crate::element::ElementType;
use crate::engine::Engine;
use crate::error::Error;
use crate::launch::IndexFault;
use crate::modules::Ready;
use crate::plan::{RowPlan, Term};
use crate::stream::{Lane, Stream};
use crate::tensor::AnyView;

/// A call whose arguments were checked.
pub(crate) struct Prepared {
    pub(super) kernel: String,
    pub(super) spec: Spec,
    pub(super) positions: u64,
    /// Its code; `None` on the CPU.
    pub(super) ready: Option<Arc<Ready>>,
    /// For each input: whether its code reads it. With a plan it reads no index.
    pub(super) reads: Vec<bool>,
    /// For each input: what its numbers must be, if it is an index.
    terms: Vec<Option<Term>>,
}

/// The calls of one kernel that were prepared before without a schedule of their own.
#[derive(Default)]
pub(crate) struct PreparedCalls(Mutex<Vec<Known>>);

struct Known {
    signature: Signature,
    /// Held weakly, so that its address names no other engine while the entry lives.
    engine: Weak<Engine>,
    prepared: Arc<Prepared>,
}

/// Everything about a call that its preparation depends on, but for kernel and device.
type Signature = SmallVec<[u64; 64]>;

/// Calls kept of one kernel; the least recent goes first.
const KEPT: usize = 16;

impl PreparedCalls {
    fn find(&self, signature: &Signature, engine: &Arc<Engine>) -> Option<Arc<Prepared>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |call: &Known| call.engine.as_ptr() == Arc::as_ptr(engine) && call.signature == *signature;
        let at = known.iter().position(same)?;
        known[..=at].rotate_right(1);
        Some(known[0].prepared.clone())
    }

    fn keep(&self, signature: Signature, engine: &Arc<Engine>, prepared: &Arc<Prepared>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|call| call.engine.strong_count() > 0);
        known.truncate(KEPT - 1);
        known.insert(0, Known { signature, engine: Arc::downgrade(engine), prepared: prepared.clone() });
    }
}

/// Prepares a call, or finds it among those that were.
pub(super) fn prepare(
    stream: &Stream,
    kernel: &Verified,
    known: Option<&PreparedCalls>,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    schedule: Option<Schedule>,
) -> Result<Arc<Prepared>, Error> {
    let known = known.filter(|_| schedule.is_none());
    let (known, queue) = match (&stream.0, known) {
        (Lane::Accelerator(queue), Some(known)) => (known, queue),
        _ => return checked(stream, kernel, inputs, outputs, plans, schedule).map(Arc::new),
    };
    let Some(signature) = signature(stream, inputs, outputs, plans) else {
        return checked(stream, kernel, inputs, outputs, plans, schedule).map(Arc::new);
    };
    if let Some(prepared) = known.find(&signature, &queue.engine) {
        return Ok(prepared);
    }
    let prepared = Arc::new(checked(stream, kernel, inputs, outputs, plans, schedule)?);
    known.keep(signature, &queue.engine, &prepared);
    Ok(prepared)
}

/// `None` for what is not on the stream's device: no such call is ever prepared.
fn signature(
    stream: &Stream,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
) -> Option<Signature> {
    let mut signature = Signature::new();
    for view in inputs.iter().chain(outputs) {
        if !view.is_on(stream) {
            return None;
        }
        // Alignments beyond the widest access are alike.
        let aligned = view.address() % u64::from(Access::MAX_BYTES);
        let ty = element_code(view.element_type());
        signature.extend_from_slice(&[view.row_count(), view.column_count(), view.row_stride(), aligned << 8 | ty]);
    }
    // The kernel's number of tensors keeps them apart from what follows.
    signature.push(plans.map_or(u64::MAX, |plans| plans.len() as u64));
    for plan in plans.unwrap_or_default() {
        if !plan.is_on(stream) {
            return None;
        }
        signature.extend_from_slice(&[plan.positions(), plan.rows(), plan.block().into(), plan.rowless()]);
    }
    Some(signature)
}

fn element_code(ty: ElementType) -> u64 {
    use rowloom_codegen::{DType, IntType};
    match ty {
        ElementType::Float(DType::F32) => 0,
        ElementType::Float(DType::F16) => 1,
        ElementType::Float(DType::Bf16) => 2,
        ElementType::Int(IntType::U8) => 3,
        ElementType::Int(IntType::I32) => 4,
        ElementType::Int(IntType::I64) => 5,
        ElementType::U32 => 6,
    }
}

/// Checks a call and loads its code.
fn checked(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[AnyView<'_>],
    outputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    schedule: Option<Schedule>,
) -> Result<Prepared, Error> {
    let arch = stream.device().arch().unwrap_or(Arch::SM_90);
    let Sizes { spec, positions } = sizes(kernel, inputs, outputs, plans.is_some(), arch)?;
    check_devices(stream, kernel, inputs, outputs)?;
    if let Some(plans) = plans {
        rows::check_plans(stream, kernel, &spec, positions, plans)?;
    }
    let ready = match &stream.0 {
        Lane::Cpu(_) => None,
        Lane::Accelerator(queue) => {
            // Loading code may wait for the device.
            let may_load = || queue.refuse_capture(&format!("loading the code of {}", kernel.name));
            Some(queue.engine.kernel(kernel, &spec, positions, schedule, may_load)?)
        }
    };
    let terms = kernel.inputs.iter().map(|input| match input.kind {
        InputKind::Index { bound, pad, .. } => {
            Some(Term { name: input.name.clone(), factor: 1, bound: spec.extent(bound), pad })
        }
        InputKind::Rows(_) | InputKind::Table { .. } => None,
    });
    let reads = (0..kernel.inputs.len()).map(|at| ready.as_ref().is_none_or(|ready| reads(&ready.source, at)));
    let (terms, reads) = (terms.collect(), reads.collect());
    Ok(Prepared { kernel: kernel.name.clone(), spec, positions, ready, reads, terms })
}

/// Whether a source reads an input.
fn reads(source: &Source, input: usize) -> bool {
    source.entries().flat_map(|entry| &entry.params).any(|param| match param {
        Param::Input { input: read, .. } | Param::InputStride { input: read, .. } => read.index() == input,
        Param::Output { .. }
        | Param::OutputStride { .. }
        | Param::Positions
        | Param::Plan { .. }
        | Param::Blocks(_)
        | Param::PlanPositions(_)
        | Param::Scratch(_) => false,
    })
}

impl Prepared {
    /// What the index that an error word names must be.
    pub(super) fn term(&self, fault: IndexFault) -> &Term {
        let term = self.terms.get(fault.term).and_then(Option::as_ref);
        term.expect("a kernel's error word names one of its indices")
    }
}
