//! How the CPU cuts its work. Never a byte depends on it.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;

/// How the CPU cuts its work: the counterpart of a GPU's schedule.
#[derive(Clone, Default)]
pub struct Tiling {
    /// Columns that one task computes; `None` chooses.
    pub columns: Option<u64>,
    /// Threads that work; `None` takes all cores.
    pub threads: Option<Arc<rayon::ThreadPool>>,
}

impl Tiling {
    /// Columns a task and a number of threads of its own, at least one each.
    ///
    /// # Errors
    /// [`Error::Io`] when the system gives no such threads.
    pub fn new(columns: u64, threads: usize) -> Result<Tiling, Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().map_err(|error| Error::Io {
            doing: format!("starting {threads} threads"),
            error: std::io::Error::other(error),
        })?;
        Ok(Tiling { columns: Some(columns.max(1)), threads: Some(Arc::new(pool)) })
    }

    /// Runs `work` on its threads.
    pub(crate) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.threads {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// `0..total` in pieces of `width`, the last one maybe smaller.
pub(super) fn pieces_of(total: u64, width: u64) -> impl Iterator<Item = Range<u64>> {
    let width = width.max(1);
    (0..total.div_ceil(width)).map(move |piece| piece * width..((piece + 1) * width).min(total))
}
