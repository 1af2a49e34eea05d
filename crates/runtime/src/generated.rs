//! What generated modules call: a declared kernel with the arguments of its
//! declaration, in both directions. Element types end here; everything below
//! works on erased tensors.

use std::sync::OnceLock;

use rowloom_codegen::Wants;
use rowloom_codegen::ir::{InputId, InputKind, Kernel, RowExpr};

use crate::call::{Call, allocate_outputs, run};
use crate::declaration::Declaration;
use crate::device::Stream;
use crate::element::Element;
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut, Tensor};
use crate::workspace::Workspace;

/// The declaration of a generated module, read once.
///
/// # Panics
/// If the text is no verified kernel; the macro has verified it.
pub fn declared(cell: &'static OnceLock<Declaration>, ir: &str) -> &'static Declaration {
    cell.get_or_init(|| Declaration::from_ir(ir).expect("the macro has verified this text"))
}

/// The tensors of one call that only reads: for each input or cotangent its tensors.
pub type Views<'t> = [Vec<AnyView<'t>>];

/// The tensors of one call to be written.
pub type ViewsMut<'t> = [Vec<AnyViewMut<'t>>];

/// Runs the kernel as declared, into new tensors. `counts` are the row counts
/// that no input determines.
///
/// # Errors
/// As [`run`].
pub fn forward(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &Views<'_>,
    plans: Option<&[&RowPlan]>,
    counts: &[(&str, u64)],
) -> Result<Results, Error> {
    let kernel = declaration.forward();
    let mut outputs = allocate_outputs(stream, kernel, inputs, counts, None)?;
    let mut views = views_mut(&mut outputs);
    let call = Call { inputs, outputs: &mut views, plans, schedule: None, workspace: None };
    run(stream, kernel, call)?;
    Ok(Results(outputs.into_iter()))
}

/// Runs the kernel as declared, into tensors of the caller.
///
/// # Errors
/// As [`run`].
pub fn forward_into<'t>(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &Views<'t>,
    plans: Option<&[&RowPlan]>,
    outputs: &mut ViewsMut<'t>,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    let call = Call { inputs, outputs, plans, schedule: None, workspace: Some(workspace) };
    run(stream, declaration.forward(), call)
}

/// Runs the derived backward, into new tensors: the gradient of each input that
/// is wanted, in declaration order.
///
/// # Errors
/// As [`run`]; [`Error::Size`] when an input is not of the shape of its gradient.
pub fn backward(
    stream: &Stream,
    declaration: &Declaration,
    arguments: Arguments<'_, '_>,
    wanted: &[bool],
) -> Result<Results, Error> {
    let forward = declaration.forward();
    let Some(wants) = wants(forward, wanted) else {
        return Ok(Results(vec![].into_iter()));
    };
    let kernel = declaration.backward(&wants);
    let counts = counts(forward, &kernel, arguments.inputs)?;
    let inputs = arguments.inputs_of(forward, &kernel);
    let plans = arguments.plans_of(forward, &kernel);
    let mut outputs = allocate_outputs(stream, &kernel, &inputs, &counts, None)?;
    let mut views = views_mut(&mut outputs);
    gradients_fit(forward, &wants, arguments.inputs, &views)?;
    let call = Call { inputs: &inputs, outputs: &mut views, plans: plans.as_deref(), schedule: None, workspace: None };
    run(stream, &kernel, call)?;
    Ok(Results(outputs.into_iter()))
}

/// Runs the derived backward, into tensors of the caller: for each input, in
/// declaration order, where its gradient goes, if it is wanted.
///
/// # Errors
/// As [`backward`].
pub fn backward_into<'t>(
    stream: &Stream,
    declaration: &Declaration,
    arguments: Arguments<'_, 't>,
    gradients: Vec<Option<AnyViewMut<'t>>>,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    let forward = declaration.forward();
    let wanted: Vec<bool> = gradients.iter().map(Option::is_some).collect();
    let Some(wants) = wants(forward, &wanted) else {
        return Ok(());
    };
    let kernel = declaration.backward(&wants);
    let inputs = arguments.inputs_of(forward, &kernel);
    let plans = arguments.plans_of(forward, &kernel);
    let mut outputs: Vec<Vec<AnyViewMut<'t>>> =
        gradients.into_iter().flatten().map(|gradient| vec![gradient]).collect();
    gradients_fit(forward, &wants, arguments.inputs, &outputs)?;
    let call = Call {
        inputs: &inputs,
        outputs: &mut outputs,
        plans: plans.as_deref(),
        schedule: None,
        workspace: Some(workspace),
    };
    run(stream, &kernel, call)
}

/// The arguments of a backward, as declared: the backward's own kernel has fewer
/// inputs and row expressions.
#[derive(Clone, Copy)]
pub struct Arguments<'a, 't> {
    /// For each declared input its tensors.
    pub inputs: &'a Views<'t>,
    /// For each declared output its cotangents.
    pub cotangents: &'a Views<'t>,
    /// A plan for each declared row expression.
    pub plans: Option<&'a [&'a RowPlan]>,
}

impl<'a, 't> Arguments<'a, 't> {
    /// What the backward reads, found by name.
    fn inputs_of(&self, forward: &Kernel, backward: &Kernel) -> Vec<Vec<AnyView<'t>>> {
        let named = |name: &str| {
            let declared = forward.inputs.iter().position(|input| input.name == name);
            let output = || {
                let output = name.strip_prefix("d_");
                forward.outputs.iter().position(|declared| Some(&*declared.name) == output)
            };
            match declared {
                Some(at) => self.inputs.get(at),
                None => output().and_then(|at| self.cotangents.get(at)),
            }
        };
        // A name that is missing gives no tensors, which the call refuses.
        backward.inputs.iter().map(|input| named(&input.name).cloned().unwrap_or_default()).collect()
    }

    /// The plans of the row expressions that the backward still has.
    fn plans_of(&self, forward: &Kernel, backward: &Kernel) -> Option<Vec<&'a RowPlan>> {
        let plans = self.plans?;
        let text = |kernel: &Kernel, row: &RowExpr| (kernel.row_text(row), row.rows.text(&kernel.counts));
        let plan = |row: &RowExpr| {
            let wanted = text(backward, row);
            let at = forward.rows.iter().position(|declared| text(forward, declared) == wanted)?;
            plans.get(at).copied()
        };
        // A plan that is missing is refused by the call, which counts them.
        Some(backward.rows.iter().filter_map(plan).collect())
    }
}

/// The tensors a call made, taken in the order of the kernel's outputs.
pub struct Results(std::vec::IntoIter<Vec<AnyTensor>>);

impl Results {
    /// The next output, of one tensor.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn one<E: Element>(&mut self) -> Result<Tensor<E>, Error> {
        let [tensor] = self.array()?;
        Ok(tensor)
    }

    /// The next output, if it was wanted.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn wanted<E: Element>(&mut self, wanted: bool) -> Result<Option<Tensor<E>>, Error> {
        wanted.then(|| self.one()).transpose()
    }

    /// The next output, of N tensors.
    ///
    /// # Errors
    /// [`Error::ElementType`] when they hold another type.
    ///
    /// # Panics
    /// If the kernel has no such output; the macro has counted.
    pub fn array<E: Element, const N: usize>(&mut self) -> Result<[Tensor<E>; N], Error> {
        let tensors: Result<Vec<Tensor<E>>, Error> =
            self.0.next().into_iter().flatten().map(AnyTensor::typed).collect();
        let array = <[Tensor<E>; N]>::try_from(tensors?);
        Ok(array.unwrap_or_else(|_| panic!("the macro counted {N} tensors in this output")))
    }
}

fn views_mut(tensors: &mut [Vec<AnyTensor>]) -> Vec<Vec<AnyViewMut<'_>>> {
    tensors.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect()
}

/// The inputs wanted; `None` for no input at all.
fn wants(forward: &Kernel, wanted: &[bool]) -> Option<Wants> {
    let wanted = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
    Wants::of(forward, wanted.map(|(at, _)| InputId(at as u32)))
}

/// The row counts of the backward that only the declared inputs tell.
fn counts<'k>(forward: &'k Kernel, backward: &Kernel, inputs: &Views<'_>) -> Result<Vec<(&'k str, u64)>, Error> {
    let told = |kernel: &Kernel, name: &str| {
        kernel.inputs.iter().position(|input| match input.kind {
            InputKind::Table { rows, .. } => rows.count.is_some_and(|count| kernel.counts[count.index()] == name),
            InputKind::Rows(_) | InputKind::Index { .. } => false,
        })
    };
    let mut counts = Vec::new();
    for name in forward.counts.iter().filter(|name| backward.counts.contains(name)) {
        if told(backward, name).is_some() {
            continue;
        }
        let Some(at) = told(forward, name) else {
            continue;
        };
        let InputKind::Table { rows, .. } = forward.inputs[at].kind else {
            continue;
        };
        let Some(view) = inputs.get(at).and_then(|tensors| tensors.first()) else {
            continue;
        };
        let found = view.row_count();
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

/// Whether each wanted gradient has the shape of its input, which the backward
/// itself does not read.
fn gradients_fit(forward: &Kernel, wants: &Wants, inputs: &Views<'_>, gradients: &ViewsMut<'_>) -> Result<(), Error> {
    for (input, gradient) in wants.inputs().iter().zip(gradients) {
        let declared = inputs.get(input.index()).and_then(|tensors| tensors.first());
        let gradient = gradient.first().map(AnyViewMut::as_view);
        let Some((declared, gradient)) = declared.zip(gradient) else {
            continue;
        };
        let name = &forward.inputs[input.index()].name;
        for (axis, found, expected) in [
            ("rows", declared.row_count(), gradient.row_count()),
            ("columns", declared.column_count(), gradient.column_count()),
        ] {
            if found != expected {
                return Err(Error::Size {
                    argument: name.clone(),
                    axis,
                    found,
                    expected,
                    because: format!("that is the shape of its gradient d_{name}"),
                });
            }
        }
    }
    Ok(())
}
