//! CUDA C for one kernel, one Spec and one schedule, and for a plan.
//!
//! The text has two parts. Primitives are a small fixed list of `rl_*`
//! functions, each with a device and a host definition; only those used are
//! written. The body is plain C++ over primitives: the same bytes go to NVRTC
//! and to the emulation.
//!
//! A [`Source`] is complete as data: whoever runs it needs no knowledge of the
//! kernel, only the sizes of the call and where its tensors lie.

mod chunks;
mod header;
pub(crate) mod lanes;
mod names;
mod plan;
mod positions;
mod primitives;
mod row;
pub(crate) mod segments;
mod source;
mod value;
mod writer;

pub(crate) use plan::Digits;
pub use plan::{PLAN_TOTALS, PlanRepeat, PlanShape, Term, plan, repeat};
pub use primitives::Primitive;
pub use source::{Count, Entry, Param, PlanArray, Scratch, Source, Step, Target};

use crate::ir::Verified;
use crate::schedule::{Schedule, ScheduleFault};
use crate::spec::{Spec, SpecError};
use names::Names;
use writer::Writer;

/// Blocks and threads that a multiprocessor of every architecture served can hold.
pub(crate) const MOST_BLOCKS: u32 = 16;
pub(crate) const MOST_THREADS: u32 = 1536;

/// Why there is no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The Spec does not fit the kernel.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The schedule is not legal.
    #[error(transparent)]
    Schedule(#[from] ScheduleFault),
    /// Sums over positions visit them in the order of a plan.
    #[error("{0} sums over positions, which needs a plan: ask for the planned mode")]
    NeedsPlan(String),
}

/// What the writers of the parts share.
struct Context<'a> {
    kernel: &'a Verified,
    spec: &'a Spec,
    names: Names,
    writer: Writer,
    steps: Vec<Step>,
    scratch: Vec<Scratch>,
    error: Option<usize>,
    /// One line per entry: name and what it does.
    entries: Vec<(String, String)>,
}

impl<'a> Context<'a> {
    fn new(kernel: &'a Verified, spec: &'a Spec) -> Context<'a> {
        Context {
            kernel,
            spec,
            names: Names::of(kernel),
            writer: Writer::default(),
            steps: vec![],
            scratch: vec![],
            error: None,
            entries: vec![],
        }
    }
}

/// The source of a kernel. Outputs with a row per position come before sums.
pub fn generate(kernel: &Verified, spec: &Spec, schedule: &Schedule) -> Result<Source, GenerateError> {
    spec.check(kernel)?;
    schedule.check(kernel, spec)?;
    if schedule.segments.is_some() && !spec.planned {
        return Err(GenerateError::NeedsPlan(kernel.name.clone()));
    }
    let mut context = Context::new(kernel, spec);
    if let Some(part) = schedule.positions {
        positions::write(&mut context, part);
    }
    if let Some(part) = schedule.segments {
        segments::write(&mut context, part);
    }
    let header = header::kernel(&context, schedule);
    let body = context.writer.text.trim_start().to_owned();
    let mode = if spec.planned { "planned" } else { "checked" };
    Ok(Source {
        name: format!("{}_{}_{mode}", kernel.name, kernel.direction),
        header,
        body,
        steps: context.steps,
        scratch: context.scratch,
        error: context.error,
    })
}
