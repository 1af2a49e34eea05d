//! The sources that a call runs: one home for the device that runs it and for a
//! pack that is made ahead of it.

use rowloom_codegen::cuda::{self, PlanRepeat, PlanShape, Term};
use rowloom_codegen::ir::{InputKind, Kernel, OutputKind, RowId};
use rowloom_codegen::{DType, PlanSchedule, Schedule, Source, Spec, Verified};

use crate::error::Error;

/// The source of a kernel under a schedule; without one under the default.
///
/// # Errors
/// [`Error::Schedule`] when the kernel cannot run under it, or its tile leaves none.
pub fn kernel(kernel: &Verified, spec: &Spec, schedule: Option<Schedule>) -> Result<Source, Error> {
    let schedule = match schedule {
        Some(schedule) => schedule,
        None => default_schedule(kernel, spec)?,
    };
    cuda::generate(kernel, spec, &schedule)
        .map_err(|fault| Error::Schedule { kernel: kernel.name.clone(), reason: fault.to_string() })
}

/// The schedule of a kernel for which there is no record of tuning.
///
/// # Errors
/// [`Error::Schedule`] when its tile leaves none.
pub(crate) fn default_schedule(kernel: &Verified, spec: &Spec) -> Result<Schedule, Error> {
    let none = || "the declared tile leaves none for this call".to_owned();
    Schedule::default_for(kernel, spec).ok_or_else(|| Error::Schedule { kernel: kernel.name.clone(), reason: none() })
}

/// The source of a plan under a schedule; without one under the default.
///
/// # Errors
/// [`Error::Schedule`] when the plan cannot be built under it.
pub fn plan(shape: &PlanShape, schedule: Option<PlanSchedule>) -> Result<Source, Error> {
    let schedule = schedule.unwrap_or_else(|| PlanSchedule::default_for(shape));
    cuda::plan(shape, &schedule)
        .map_err(|fault| Error::Schedule { kernel: "a plan".to_owned(), reason: fault.to_string() })
}

/// What the plan of a row expression is made of.
///
/// # Panics
/// If the kernel has no such row expression.
pub fn plan_shape(kernel: &Kernel, spec: &Spec, row: RowId) -> PlanShape {
    let expression = &kernel.rows[row.index()];
    let terms = expression.terms.iter().filter_map(|&(input, factor)| match kernel.inputs[input.index()].kind {
        InputKind::Index { ty, bound, pad } => Some(Term { ty: spec.int(ty), factor, bound: spec.extent(bound), pad }),
        InputKind::Rows(_) | InputKind::Table { .. } => None,
    });
    PlanShape {
        terms: terms.collect(),
        offset: expression.offset,
        rows: spec.extent(expression.rows),
        block: kernel.order.block,
    }
}

/// Has gradients stored in this type.
pub fn store_gradients_as(kernel: &Verified, spec: &mut Spec, ty: DType) {
    for (param, float) in kernel.floats.iter().zip(&mut spec.floats) {
        if param.default.is_some() {
            *float = ty;
        }
    }
    let accesses = kernel.outputs.iter().map(|output| match output.kind {
        OutputKind::Rows(ty) | OutputKind::Table { ty, .. } => spec.widest(ty),
    });
    spec.outputs = accesses.collect();
}

/// Every source that a call of this Spec may load where there are no records of tuning: the
/// kernel's own, and those that build its plans, from the declared indices, from a row of each
/// position, or from a plan of one sequence of a batch.
///
/// # Errors
/// As [`kernel`].
pub fn of_call(kernel: &Verified, spec: &Spec) -> Result<Vec<Source>, Error> {
    let mut sources = vec![self::kernel(kernel, spec, None)?];
    let shapes = plan_shapes(kernel, spec);
    for shape in &shapes {
        sources.push(plan(shape, None)?);
    }
    let mut repeats: Vec<PlanRepeat> =
        shapes.iter().map(|shape| PlanRepeat { rows: shape.rows, block: shape.block }).collect();
    repeats.dedup();
    sources.extend(repeats.iter().map(cuda::repeat));
    Ok(sources)
}

/// The plans that a call of this Spec may build: from the declared indices, and from a row of
/// each position. None where it takes none.
pub fn plan_shapes(kernel: &Kernel, spec: &Spec) -> Vec<PlanShape> {
    let mut shapes: Vec<PlanShape> = Vec::new();
    if !spec.planned {
        return shapes;
    }
    for row in (0..kernel.rows.len() as u32).map(RowId) {
        let declared = plan_shape(kernel, spec, row);
        let given = |ty| Term { ty, factor: 1, bound: declared.rows, pad: None };
        let given = declared.terms.first().map(|term| PlanShape {
            terms: vec![given(term.ty)],
            offset: 0,
            rows: declared.rows,
            block: declared.block,
        });
        shapes.extend([declared].into_iter().chain(given));
    }
    let mut seen = std::collections::HashSet::new();
    shapes.retain(|shape| seen.insert(shape.clone()));
    shapes
}
