//! The rows of a call: its plans, or what its indices say.

use std::convert::Infallible;

use rowloom_codegen::ir::{Extent, InputId, InputKind, Kernel, RowId};
use rowloom_codegen::{Spec, Verified};

use super::facts::Facts;
use super::operands::arguments;
use crate::error::Error;
use crate::grouped;
use crate::plan::{PendingPlan, RowPlan, RowShape, Term};
use crate::stream::Stream;
use crate::tensor::AnyView;

/// What the plan of a row expression of a kernel is built from, with the names that errors use: `expression` counts the
/// kernel's row expressions from 0, `counts` has all row counts that this one needs, by name.
/// [`RowPlan::build`] takes its indices in the order of [`RowShape::terms`].
///
/// # Errors
/// [`Error::Arguments`] for an expression that the kernel does not have; [`Error::UnknownCount`],
/// [`Error::Undetermined`] and [`Error::Spec`] for row counts.
pub fn row_shape(kernel: &Verified, expression: usize, counts: &[(&str, u64)]) -> Result<RowShape, Error> {
    let expected = kernel.rows.len();
    if expression >= expected {
        let (what, found) = ("row expressions", expression.saturating_add(1));
        return Err(Error::Arguments { kernel: kernel.name.clone(), what, expected, found });
    }
    let mut known = Facts::of_nothing(kernel);
    known.add_counts(counts)?;
    named_shape(kernel, RowId(expression as u32), |name, extent| known.extent(name, extent))
}

/// A row expression with the numbers of a call.
pub(super) fn shape(kernel: &Kernel, spec: &Spec, row: RowId) -> RowShape {
    let Ok(shape) = named_shape(kernel, row, |_, extent| Ok::<_, Infallible>(spec.extent(extent)));
    shape
}

/// `value` is what an extent is, that bounds what has a name.
fn named_shape<E>(kernel: &Kernel, row: RowId, value: impl Fn(&str, Extent) -> Result<u64, E>) -> Result<RowShape, E> {
    let expression = &kernel.rows[row.index()];
    let terms = expression.terms.iter().filter_map(|&(input, factor)| {
        let input = &kernel.inputs[input.index()];
        let InputKind::Index { bound, pad, .. } = input.kind else { return None };
        Some(value(&input.name, bound).map(|bound| Term { name: input.name.clone(), factor, bound, pad }))
    });
    let terms = terms.collect::<Result<_, _>>()?;
    let rows = value(&kernel.row_text(expression), expression.rows)?;
    Ok(RowShape { terms, offset: expression.offset, rows, block: kernel.order.block })
}

/// The indices of a row expression.
pub(super) fn indices<'t>(kernel: &Kernel, inputs: &[AnyView<'t>], row: RowId) -> Vec<AnyView<'t>> {
    kernel.rows[row.index()].terms.iter().map(|&(input, _)| inputs[grouped::start(kernel, input)]).collect()
}

/// The plans of a call whose work is queued: one for each row expression of the kernel.
pub struct PendingPlans<'k, 't> {
    kernel: &'k Kernel,
    plans: Vec<PendingPlan<'t>>,
}

impl PendingPlans<'_, '_> {
    /// The plans, in the order of the row expressions. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::Index`] for the smallest position at which some index is out of its own bound;
    /// what the device reports.
    pub fn wait(self) -> Result<Vec<RowPlan>, Error> {
        let mut plans = self.plans.into_iter();
        all(self.kernel, |_| plans.next().map_or_else(|| unreachable!("one for each"), PendingPlan::wait))
    }
}

/// Queues one plan for each row expression.
pub(super) fn queue<'k, 't>(
    stream: &Stream,
    kernel: &'k Kernel,
    spec: &Spec,
    inputs: &[AnyView<'t>],
) -> Result<PendingPlans<'k, 't>, Error> {
    let one = |row| RowPlan::queue(stream, &shape(kernel, spec, row), &indices(kernel, inputs, row));
    Ok(PendingPlans { kernel, plans: expressions(kernel).map(one).collect::<Result<_, _>>()? })
}

/// Every row expression.
pub(super) fn expressions(kernel: &Kernel) -> impl Iterator<Item = RowId> {
    (0..kernel.rows.len() as u32).map(RowId)
}

/// One result per row expression, or the error of the smallest position; at one
/// position that of the index declared first.
pub(super) fn all<T>(kernel: &Kernel, each: impl FnMut(RowId) -> Result<T, Error>) -> Result<Vec<T>, Error> {
    let mut found = Vec::new();
    let mut first: Option<((u64, Option<InputId>), Error)> = None;
    for result in expressions(kernel).map(each) {
        match result {
            Ok(value) => found.push(value),
            Err(error) => {
                let Error::Index { argument, position, .. } = &error else { return Err(error) };
                let key = (*position, kernel.input(argument));
                if first.as_ref().is_none_or(|(earlier, _)| key < *earlier) {
                    first = Some((key, error));
                }
            }
        }
    }
    first.map_or(Ok(found), |(_, error)| Err(error))
}

/// Whether the plans are for this call.
pub(super) fn check_plans(
    stream: &Stream,
    kernel: &Kernel,
    spec: &Spec,
    positions: u64,
    plans: &[&RowPlan],
) -> Result<(), Error> {
    arguments(kernel, "plans", kernel.rows.len(), plans.len())?;
    for (row, plan) in expressions(kernel).zip(plans) {
        let rows_of = kernel.row_text(&kernel.rows[row.index()]);
        if !plan.is_on(stream) {
            let (expected, found) = (stream.device().name(), plan.device().name());
            return Err(Error::WrongDevice { argument: format!("the plan of {rows_of}"), expected, found });
        }
        let rows = spec.extent(kernel.rows[row.index()].rows);
        let mut facts = vec![("positions", plan.positions(), positions), ("rows", plan.rows(), rows)];
        if kernel.sums_by(row) {
            facts.push(("positions a block", plan.block().into(), kernel.order.block.into()));
        }
        // Code for a kernel without a pad does not look for what has no row.
        if !kernel.has_pad(row) {
            facts.push(("positions without a row", plan.rowless(), 0));
        }
        if let Some((what, found, expected)) = facts.into_iter().find(|(_, found, expected)| found != expected) {
            return Err(Error::Plan { rows_of, what, found, expected });
        }
    }
    Ok(())
}
