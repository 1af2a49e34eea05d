//! Memory and streams of other frameworks, as rowloom's own. With `array/exchange.rs` all unsafe code
//! outside of `crates/runtime`.
#![expect(unsafe_code, reason = "an address means what its owner says")]

use rowloom::{AnyView, AnyViewMut, Device, Error, PlanSizes, RowPlan, RowShape, Stream, Workspace};

use crate::array::Matrix;

/// An array to be read.
pub(crate) fn view<'a>(device: &'a Device, matrix: &'a Matrix<'_>) -> Result<AnyView<'a>, Error> {
    let Matrix { ty, address, rows, columns, row_stride, .. } = *matrix;
    // SAFETY: the array has these elements there, as its owner says, and is held by the caller's
    // Python reference for `'a`. Work that is still queued when the call returns is on the stream
    // that the caller names, behind which the owner frees and reuses the memory. On the CPU what is
    // written shares no byte with any other array of the call (`call::apart`), and a program that writes
    // from another thread to what it has passed breaks the module's contract.
    unsafe { AnyView::from_raw(device, address, ty, rows, columns, row_stride) }
}

/// An array to be written.
pub(crate) fn view_mut<'a>(device: &'a Device, matrix: &'a Matrix<'_>) -> Result<AnyViewMut<'a>, Error> {
    let Matrix { ty, address, rows, columns, row_stride, .. } = *matrix;
    // SAFETY: as above; and it may be written (`call::writable`).
    unsafe { AnyViewMut::from_raw(device, address, ty, rows, columns, row_stride) }
}

/// A framework's stream.
pub(crate) fn stream(device: &Device, raw: u64) -> Result<Stream, Error> {
    // SAFETY: the caller names a stream of the device's primary context, which is the one that
    // frameworks use, and keeps it while work is queued on it. What is kept of it after a call is its
    // number and what we note of it, for a deferred check (`device::DEFERRED`) and for as long as a
    // `Launch` is remembered. That needs no stream to be there: one that is borrowed is never closed
    // by us, and memory of ours is queued and freed on it within a call alone: results, plans and scratch
    // of a launch are the framework's, and the word of a deferred check is not freed by the stream. The driver
    // is called with it again only when it is named anew, by a caller who promises the same again, or by
    // the framework as its current one, on which alone `Recent` and `Launch::backward` use a launch.
    unsafe { Stream::from_raw(device, raw) }
}

/// A plan whose state is an array of as many elements as its sizes ask for.
pub(crate) fn plan(device: &Device, state: &Matrix<'_>, sizes: PlanSizes) -> Result<RowPlan, Error> {
    // SAFETY: the array has all elements of the state (`plan::state`), is held as in `view`, and its owner
    // promises that `plan` or `repeat_plan` has made it with these sizes.
    unsafe { RowPlan::from_raw(device, state.address, sizes) }
}

/// Builds a plan into such an array.
pub(crate) fn build_plan(
    stream: &Stream,
    shape: &RowShape,
    indices: &[AnyView<'_>],
    state: &Matrix<'_>,
) -> Result<PlanSizes, Error> {
    // SAFETY: as in `plan`, and it may be written and shares no byte with the indices. The plan is
    // dropped at once, its work being done.
    Ok(unsafe { RowPlan::build_at(stream, shape, indices, state.address)? }.sizes())
}

/// Builds the plan of a batch into such an array.
pub(crate) fn repeat_plan(stream: &Stream, plan: &RowPlan, batch: u64, state: &Matrix<'_>) -> Result<PlanSizes, Error> {
    // SAFETY: as in `build_plan`, with the state of the first plan in place of the indices.
    Ok(unsafe { plan.repeat_at(stream, batch, state.address)? }.sizes())
}

/// Scratch memory.
pub(crate) fn workspace(stream: &Stream, bytes: &Matrix<'_>) -> Result<Workspace, Error> {
    // SAFETY: the array has these bytes, is held as in `view`, and may be written.
    unsafe { Workspace::from_raw(stream, bytes.address, bytes.rows) }
}
