//! Plans that are being made.

use super::accelerated::{self, Queued};
use super::{RowPlan, RowShape};
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::AnyView;

/// A plan whose work is queued on a stream. Dropped, the work is done for nothing.
pub struct PendingPlan<'t> {
    pub(super) stream: Stream,
    pub(super) shape: RowShape,
    pub(super) indices: Vec<AnyView<'t>>,
    pub(super) work: Work,
}

/// What there is of it.
pub(super) enum Work {
    /// A CPU's is done when it is queued, or its first bad index found.
    Done(Box<Result<RowPlan, Error>>),
    Queued(Box<Queued>),
}

impl PendingPlan<'_> {
    /// The plan. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::Index`] for the smallest position at which an index is out of its own
    /// bound; what the device reports.
    pub fn wait(self) -> Result<RowPlan, Error> {
        let PendingPlan { stream, shape, indices, work } = self;
        match work {
            Work::Done(plan) => *plan,
            Work::Queued(queued) => match queued.finish()? {
                Ok(plan) => Ok(plan),
                Err(found) => Err(accelerated::index_error(&stream, &shape, &indices, found)?),
            },
        }
    }
}
