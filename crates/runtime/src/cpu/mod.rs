//! The CPU executor: a verified kernel run on all cores, some columns at a time.
//! It has no schedule; [`Tiling`] cuts its work, and no byte depends on it.

mod bound;
pub(crate) mod numbers;
mod pool;
mod positions;
mod tables;
mod target;
mod tiling;

use rowloom_codegen::ir::{NodeId, OutputKind};
use rowloom_codegen::{Spec, Verified};

pub(crate) use bound::{Bound, HostRows, RowsRef};
use target::Target;
pub use tiling::Tiling;

use crate::error::Error;
use crate::grouped;
use crate::tensor::{AnyView, AnyViewMut};

/// Runs a kernel, its tensors one after the other. Sizes, types and rows must have been checked, and every tensor
/// be on the CPU.
///
/// # Errors
/// [`Error::Io`] where the system gives a forked child no threads.
pub(crate) fn run(
    kernel: &Verified,
    spec: &Spec,
    positions: u64,
    inputs: &[AnyView<'_>],
    rows: Vec<RowsRef<'_>>,
    outputs: &mut [AnyViewMut<'_>],
    tiling: &Tiling,
) -> Result<(), Error> {
    let host = |view: &_| HostRows::new(view).expect("the call's devices have been checked");
    let inputs = grouped::inputs(kernel, inputs).map(|(_, tensors)| tensors.iter().map(host).collect()).collect();
    let bound = Bound { kernel, spec, positions, inputs, rows };
    let mut per_position: Vec<(NodeId, Target<'_>)> = Vec::new();
    let mut per_row: Vec<(&[NodeId], Target<'_>)> = Vec::new();
    let mut outputs = outputs.iter_mut();
    for output in &kernel.outputs {
        let tensors = outputs.by_ref().take(output.tensors());
        let targets = tensors.map(|view| Target::new(view).expect("the call's devices have been checked"));
        match output.kind {
            OutputKind::Rows(_) => per_position.extend(output.values.iter().copied().zip(targets)),
            OutputKind::Table { .. } => per_row.extend(targets.map(|target| (&output.values[..], target))),
        }
    }
    tiling.install(|| {
        positions::run(&bound, tiling, &per_position);
        tables::run(&bound, tiling, &per_row);
    })
}
