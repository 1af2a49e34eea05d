//! A declaration's backward: which of the declared tensors and plans it takes.

use std::ops::Range;
use std::sync::Arc;

use rowloom_codegen::ir::{InputId, InputKind, Kernel, RowExpr};
use rowloom_codegen::{Verified, Wants};
use smallvec::SmallVec;

use super::Declaration;
use crate::call::{PreparedCalls, Views};
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::AnyView;

/// The backward for one set of wanted gradients. Its own kernel has fewer inputs and
/// row expressions than the declaration, in another order.
pub(crate) struct Backward {
    wanted: Box<[bool]>,
    wants: Wants,
    kernel: Arc<Verified>,
    prepared: PreparedCalls,
    /// For each of its inputs.
    reads: Vec<Read>,
    /// For each of its row expressions, the declared one.
    rows: Vec<usize>,
}

/// Declared tensors, each list one after the other.
enum Read {
    Input(usize),
    Cotangents(Range<usize>),
}

impl Backward {
    pub(super) fn of(declaration: &Declaration, wanted: &[bool], wants: Wants) -> Backward {
        let forward = declaration.forward();
        let kernel = declaration.backward(&wants);
        let reads = kernel.inputs.iter().map(|input| read(forward, &input.name)).collect();
        let text = |kernel: &Kernel, row: &RowExpr| (kernel.row_text(row), row.rows.text(&kernel.counts));
        let declared = |row: &RowExpr| {
            let wanted = text(&kernel, row);
            let at = forward.rows.iter().position(|declared| text(forward, declared) == wanted);
            at.expect("a backward goes through declared rows")
        };
        let rows = kernel.rows.iter().map(declared).collect();
        Backward { wanted: wanted.into(), wants, kernel, prepared: PreparedCalls::default(), reads, rows }
    }

    /// A flag for each declared input.
    pub(crate) fn wanted(&self) -> &[bool] {
        &self.wanted
    }

    pub(crate) fn kernel(&self) -> &Verified {
        &self.kernel
    }

    pub(crate) fn prepared(&self) -> &PreparedCalls {
        &self.prepared
    }

    /// The declared inputs whose gradients it gives, in order.
    pub(crate) fn inputs(&self) -> &[InputId] {
        self.wants.inputs()
    }

    /// For each of so many declared inputs, whether it reads it.
    pub(super) fn reads_of(&self, inputs: usize) -> Vec<bool> {
        (0..inputs).map(|at| self.reads.iter().any(|read| matches!(read, Read::Input(input) if *input == at))).collect()
    }

    /// What it reads, of all inputs and cotangents.
    pub(crate) fn views<'t>(
        &self,
        forward: &Kernel,
        inputs: &[Option<AnyView<'t>>],
        cotangents: &[AnyView<'t>],
    ) -> Result<Views<'t>, Error> {
        let mut views = Views::new();
        for read in &self.reads {
            match read {
                Read::Input(at) => views.push(inputs[*at].ok_or_else(|| Error::AbsentInput {
                    kernel: forward.name.clone(),
                    argument: forward.inputs[*at].name.clone(),
                })?),
                Read::Cotangents(range) => views.extend_from_slice(&cotangents[range.clone()]),
            }
        }
        Ok(views)
    }

    /// The plans that it goes through, of those of the declaration.
    pub(crate) fn plans<'a>(&self, plans: &[&'a RowPlan]) -> SmallVec<[&'a RowPlan; 2]> {
        self.rows.iter().map(|&row| plans[row]).collect()
    }

    /// The row counts that only declared inputs tell: the tables that it does not read and that are there.
    pub(crate) fn counts<'k>(
        &self,
        forward: &'k Kernel,
        inputs: &[Option<AnyView<'_>>],
    ) -> Result<Vec<(&'k str, u64)>, Error> {
        let told = |kernel: &Kernel, name: &str| {
            kernel.inputs.iter().position(|input| match input.kind {
                InputKind::Table { rows, .. } => rows.count.is_some_and(|count| kernel.counts[count.index()] == name),
                InputKind::Rows(_) | InputKind::Index { .. } => false,
            })
        };
        let mut counts = Vec::new();
        for name in forward.counts.iter().filter(|name| self.kernel.counts.contains(name)) {
            if told(&self.kernel, name).is_some() {
                continue;
            }
            let Some(at) = told(forward, name) else {
                continue;
            };
            let InputKind::Table { rows, .. } = forward.inputs[at].kind else {
                continue;
            };
            let Some(found) = inputs[at].map(|table| table.row_count()) else {
                continue;
            };
            let value = rows.solve(found).ok_or_else(|| Error::NoMultiple {
                argument: forward.inputs[at].name.clone(),
                axis: "rows",
                found,
                of: rows.numerator,
                because: format!("it is declared with {} rows", rows.text(&forward.counts)),
            })?;
            counts.push((name.as_str(), value));
        }
        Ok(counts)
    }

    /// Whether each gradient has the shape of its input, which the backward itself may not read. Where that is
    /// absent, the backward compares its gradient with all else.
    pub(crate) fn check_gradients(
        &self,
        forward: &Kernel,
        inputs: &[Option<AnyView<'_>>],
        gradients: &[AnyView<'_>],
    ) -> Result<(), Error> {
        for (input, gradient) in self.inputs().iter().zip(gradients) {
            let Some(declared) = &inputs[input.index()] else {
                continue;
            };
            let name = &forward.inputs[input.index()].name;
            for (axis, found, expected) in [
                ("rows", declared.row_count(), gradient.row_count()),
                ("columns", declared.column_count(), gradient.column_count()),
            ] {
                if found != expected {
                    let because = format!("that is the shape of its gradient d_{name}");
                    return Err(Error::Size { argument: name.clone(), axis, found, expected, because });
                }
            }
        }
        Ok(())
    }
}

/// Where an input of a backward comes from: a declared input of its name, or the
/// cotangents of the output behind its `d_`.
fn read(forward: &Kernel, name: &str) -> Read {
    if let Some(at) = forward.inputs.iter().position(|input| input.name == name) {
        return Read::Input(at);
    }
    let mut start = 0;
    for output in &forward.outputs {
        let end = start + output.tensors();
        if name.strip_prefix("d_") == Some(&*output.name) {
            return Read::Cotangents(start..end);
        }
        start = end;
    }
    unreachable!("a backward reads declared inputs and cotangents, not {name}")
}
