//! Plans on an accelerator.

use std::sync::Arc;

use super::{RowPlan, RowShape};
use crate::device::Stream;
use crate::engine::Queue;
use crate::error::Error;
use crate::tensor::AnyView;

pub(super) fn build(
    _stream: &Stream,
    _queue: &Arc<Queue>,
    _shape: &RowShape,
    _indices: &[AnyView<'_>],
    _positions: u64,
) -> Result<RowPlan, Error> {
    Err(Error::OnlyAccelerator("plan"))
}
