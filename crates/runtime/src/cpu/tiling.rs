//! How the CPU cuts its work. Never a byte depends on it.

use std::ops::Range;
use std::sync::Arc;

use super::pool;
use crate::error::Error;

/// How the CPU cuts its work: the counterpart of a GPU's schedule.
#[derive(Clone, Default)]
pub struct Tiling {
    /// Columns that one task computes; `None` chooses.
    pub columns: Option<u64>,
    /// Threads that work, in the process that started them; `None` takes all cores, in a forked child too.
    pub threads: Option<Arc<rayon::ThreadPool>>,
}

impl Tiling {
    /// Columns a task and a number of threads of its own, at least one each.
    ///
    /// # Errors
    /// [`Error::Io`] when the system gives no such threads.
    pub fn new(columns: u64, threads: usize) -> Result<Tiling, Error> {
        Ok(Tiling { columns: Some(columns.max(1)), threads: Some(Arc::new(pool::new(threads.max(1))?)) })
    }

    /// Runs `work` on its threads.
    ///
    /// # Errors
    /// [`Error::Io`] where the system gives a forked child no threads.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
        match &self.threads {
            Some(pool) => Ok(pool.install(work)),
            None => pool::install(work),
        }
    }
}

/// `0..total` in pieces of `width`, the last one maybe smaller.
pub(super) fn pieces_of(total: u64, width: u64) -> impl Iterator<Item = Range<u64>> {
    let width = width.max(1);
    (0..total.div_ceil(width)).map(move |piece| piece * width..((piece + 1) * width).min(total))
}
