//! What generated modules call: a declared kernel with the arguments of its
//! declaration, in both directions. Element types end here; everything below
//! works on erased tensors. Lists of tensors hold those of one input or output after
//! those of the other, as many as are declared.

mod results;

use std::sync::{Arc, OnceLock};

use rowloom_codegen::DType;
use rowloom_codegen::ir::{Kernel, Output};
use smallvec::SmallVec;

use crate::call::{
    Operands, Pending, Views, allocate_flat, arguments, queue_flat_plans, run_deferred_flat, run_flat,
    workspace_bytes_flat,
};
use crate::declaration::{Backward, Declaration};
use crate::error::Error;
use crate::plan::RowPlan;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut};
use crate::workspace::Workspace;
pub use results::Results;

/// The declaration of a generated module, read once.
///
/// # Panics
/// If the text is no verified kernel; the macro has verified it.
pub fn declared(cell: &'static OnceLock<Declaration>, ir: &str) -> &'static Declaration {
    cell.get_or_init(|| Declaration::from_ir(ir).expect("the macro has verified this text"))
}

/// Runs the kernel as declared, into new tensors. `counts` are the row counts
/// that no input determines.
///
/// # Errors
/// As [`crate::run`].
pub fn forward(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    counts: &[(&str, u64)],
) -> Result<Results, Error> {
    let kernel = declaration.forward();
    let mut outputs = allocate_flat(stream, kernel, inputs, counts, None)?;
    let operands = Operands { inputs, outputs: &mut views_mut(&mut outputs), plans };
    run_flat(stream, kernel, Some(declaration.prepared()), operands, None, None)?;
    Ok(Results::new(outputs))
}

/// The plans of the kernel's row expressions, in their order. Waits for the stream.
///
/// # Errors
/// As [`crate::plans`].
///
/// # Panics
/// If the kernel has not N row expressions; the macro has counted.
pub fn plans<const N: usize>(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'_>],
    counts: &[(&str, u64)],
) -> Result<[RowPlan; N], Error> {
    let plans = queue_flat_plans(stream, declaration.forward(), inputs, counts)?.wait()?;
    Ok(plans.try_into().unwrap_or_else(|_| panic!("the macro counted {N} row expressions")))
}

/// Runs the kernel as declared, into new tensors, without waiting for its check.
///
/// # Errors
/// As [`crate::run_deferred`].
pub fn forward_deferred<'t, T>(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'t>],
    counts: &[(&str, u64)],
    take: impl FnOnce(Results) -> Result<T, Error>,
) -> Result<Pending<'t, T>, Error> {
    let kernel = declaration.forward();
    let mut outputs = allocate_flat(stream, kernel, inputs, counts, None)?;
    let operands = Operands { inputs, outputs: &mut views_mut(&mut outputs), plans: None };
    let pending = run_deferred_flat(stream, kernel, Some(declaration.prepared()), operands, None, None)?;
    Ok(pending.with(take(Results::new(outputs))?))
}

/// Runs the kernel as declared, into tensors of the caller. Without a workspace it allocates
/// what it needs, plans too.
///
/// # Errors
/// As [`crate::run`].
pub fn forward_into<'w>(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    outputs: &mut [AnyViewMut<'_>],
    workspace: impl Into<Option<&'w mut Workspace>>,
) -> Result<(), Error> {
    check_tensors(declaration.forward(), inputs.len(), outputs.len())?;
    let operands = Operands { inputs, outputs, plans };
    run_flat(stream, declaration.forward(), Some(declaration.prepared()), operands, None, workspace.into())
}

/// The same without waiting for the check of its indices.
///
/// # Errors
/// As [`crate::run_deferred`].
pub fn forward_deferred_into<'t>(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'t>],
    outputs: &mut [AnyViewMut<'_>],
) -> Result<Pending<'t, ()>, Error> {
    check_tensors(declaration.forward(), inputs.len(), outputs.len())?;
    let operands = Operands { inputs, outputs, plans: None };
    run_deferred_flat(stream, declaration.forward(), Some(declaration.prepared()), operands, None, None)
}

/// Whether lists have the kernel's number of tensors.
fn check_tensors(kernel: &Kernel, inputs: usize, outputs: usize) -> Result<(), Error> {
    arguments(kernel, "input tensors", kernel.inputs.iter().map(|input| input.count as usize).sum(), inputs)?;
    arguments(kernel, "output tensors", kernel.outputs.iter().map(Output::tensors).sum(), outputs)
}

/// Bytes of workspace that [`forward_into`] needs.
///
/// # Errors
/// As [`crate::workspace_bytes`].
pub fn forward_workspace_bytes(
    stream: &Stream,
    declaration: &Declaration,
    inputs: &[AnyView<'_>],
    plans: Option<&[&RowPlan]>,
    outputs: &[AnyViewMut<'_>],
) -> Result<u64, Error> {
    let outputs: Vec<AnyView<'_>> = outputs.iter().map(AnyViewMut::as_view).collect();
    let (kernel, known) = (declaration.forward(), Some(declaration.prepared()));
    workspace_bytes_flat(stream, kernel, known, inputs, &outputs, plans, None)
}

/// The arguments of a backward, as declared.
#[derive(Clone, Copy)]
pub struct Arguments<'a, 't> {
    /// The declared inputs. What the backward does not read ([`Declaration::reads`]) may be absent:
    /// its sizes then come from its gradient.
    pub inputs: &'a [Option<AnyView<'t>>],
    /// The cotangents of the declared outputs.
    pub cotangents: &'a [AnyView<'t>],
    /// A plan for each declared row expression.
    pub plans: Option<&'a [&'a RowPlan]>,
}

impl<'a, 't> Arguments<'a, 't> {
    /// What a backward reads, in its order.
    fn views(&self, declaration: &Declaration, of: &Backward) -> Result<Views<'t>, Error> {
        let forward = declaration.forward();
        arguments(forward, "cotangents", forward.outputs.iter().map(Output::tensors).sum(), self.cotangents.len())?;
        of.views(forward, self.inputs, self.cotangents)
    }

    /// The backward that gives the wanted gradients, if any is.
    fn backward(&self, declaration: &Declaration, wanted: &[bool]) -> Result<Option<Arc<Backward>>, Error> {
        let forward = declaration.forward();
        arguments(forward, "inputs", forward.inputs.len(), self.inputs.len())?;
        arguments(forward, "gradients", forward.inputs.len(), wanted.len())?;
        declaration.backward_of(wanted)
    }

    /// The plans that a backward goes through. All are given, needed or not.
    fn plans_of(&self, declaration: &Declaration, of: &Backward) -> Result<Option<Plans<'a>>, Error> {
        let Some(plans) = self.plans else { return Ok(None) };
        let forward = declaration.forward();
        arguments(forward, "plans", forward.rows.len(), plans.len())?;
        Ok(Some(of.plans(plans)))
    }
}

/// Plans on the stack, for kernels of a usual size.
type Plans<'a> = SmallVec<[&'a RowPlan; 2]>;

/// Runs the derived backward, into new tensors: the gradient of each input that
/// is wanted, in declaration order; those of tables in the type `stored`, by default the
/// table's own.
///
/// # Errors
/// As [`crate::run`]; [`Error::Size`] when an input is not of the shape of its gradient.
pub fn backward(
    stream: &Stream,
    declaration: &Declaration,
    arguments: Arguments<'_, '_>,
    wanted: &[bool],
    stored: Option<DType>,
) -> Result<Results, Error> {
    let Some(of) = arguments.backward(declaration, wanted)? else {
        return Ok(Results::new(Vec::new()));
    };
    let counts = of.counts(declaration.forward(), arguments.inputs)?;
    let inputs = arguments.views(declaration, &of)?;
    let plans = arguments.plans_of(declaration, &of)?;
    let mut outputs = allocate_flat(stream, of.kernel(), &inputs, &counts, stored)?;
    let shapes: Vec<AnyView<'_>> = outputs.iter().map(AnyTensor::view).collect();
    of.check_gradients(declaration.forward(), arguments.inputs, &shapes)?;
    let operands = Operands { inputs: &inputs, outputs: &mut views_mut(&mut outputs), plans: plans.as_deref() };
    run_flat(stream, of.kernel(), Some(of.prepared()), operands, None, None)?;
    Ok(Results::new(outputs))
}

/// Runs the derived backward, into tensors of the caller: for each input, in
/// declaration order, where its gradient goes, if it is wanted. Without a workspace it
/// allocates what it needs, plans too.
///
/// # Errors
/// As [`backward`].
pub fn backward_into<'g, 'w>(
    stream: &Stream,
    declaration: &Declaration,
    arguments: Arguments<'_, '_>,
    gradients: impl IntoIterator<Item = Option<AnyViewMut<'g>>>,
    workspace: impl Into<Option<&'w mut Workspace>>,
) -> Result<(), Error> {
    let mut wanted: SmallVec<[bool; 16]> = SmallVec::new();
    let mut outputs: SmallVec<[AnyViewMut<'g>; 8]> = SmallVec::new();
    for gradient in gradients {
        wanted.push(gradient.is_some());
        outputs.extend(gradient);
    }
    let Some(of) = arguments.backward(declaration, &wanted)? else {
        return Ok(());
    };
    let inputs = arguments.views(declaration, &of)?;
    let plans = arguments.plans_of(declaration, &of)?;
    let shapes: SmallVec<[AnyView<'_>; 8]> = outputs.iter().map(AnyViewMut::as_view).collect();
    of.check_gradients(declaration.forward(), arguments.inputs, &shapes)?;
    drop(shapes);
    let operands = Operands { inputs: &inputs, outputs: &mut outputs, plans: plans.as_deref() };
    run_flat(stream, of.kernel(), Some(of.prepared()), operands, None, workspace.into())
}

/// Bytes of workspace that [`backward_into`] needs.
///
/// # Errors
/// As [`crate::workspace_bytes`].
pub fn backward_workspace_bytes<'g>(
    stream: &Stream,
    declaration: &Declaration,
    arguments: Arguments<'_, '_>,
    gradients: impl IntoIterator<Item = Option<AnyViewMut<'g>>>,
) -> Result<u64, Error> {
    let gradients: Vec<Option<AnyViewMut<'_>>> = gradients.into_iter().collect();
    let wanted: Vec<bool> = gradients.iter().map(Option::is_some).collect();
    let Some(of) = arguments.backward(declaration, &wanted)? else {
        return Ok(0);
    };
    let inputs = arguments.views(declaration, &of)?;
    let plans = arguments.plans_of(declaration, &of)?;
    let outputs: Vec<AnyView<'_>> = gradients.iter().flatten().map(AnyViewMut::as_view).collect();
    of.check_gradients(declaration.forward(), arguments.inputs, &outputs)?;
    let known = Some(of.prepared());
    workspace_bytes_flat(stream, of.kernel(), known, &inputs, &outputs, plans.as_deref(), None)
}

fn views_mut(tensors: &mut [AnyTensor]) -> Vec<AnyViewMut<'_>> {
    tensors.iter_mut().map(AnyTensor::view_mut).collect()
}
