//! Owned streams, memory and graphs of an [`Accelerator`]: the numbers of its
//! interface with their lifetimes, and who waits for whom.
//!
//! [`Queue`] is a stream, [`Submission`] what a thread is queueing on it,
//! [`DeviceMemory`] an allocation, [`Region`] a stretch of memory that a view
//! looks into, ours or a framework's.
#![expect(unsafe_code, reason = "the accelerator's methods trust the numbers they are given")]

mod graph;
mod memory;
mod queue;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

pub(crate) use graph::RawGraph;
pub(crate) use memory::{DeviceMemory, Region, Use};
pub(crate) use queue::{Queue, Submission};
pub(crate) use words::{Check, Word};

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::modules::Modules;
use crate::once::lock;
use crate::tuning::Records;

/// An accelerator and what it holds for all streams.
pub(crate) struct Engine {
    pub(crate) accelerator: Box<dyn Accelerator>,
    pub(crate) modules: Modules,
    /// Records of tuning in place of the process's own.
    pub(crate) records: Option<Arc<Records>>,
    /// Streams in use, by their number: each is one [`Queue`], however often it is borrowed.
    queues: Mutex<HashMap<u64, Weak<Queue>>>,
    /// Words of host memory that copies may write to behind a kernel, not in use.
    free_words: Mutex<Vec<u64>>,
    /// Memory that was dropped while a stream that used it was captured: a capture
    /// can neither be waited for nor free what it did not allocate.
    parked: Mutex<Vec<DeviceMemory>>,
}

impl Engine {
    pub(crate) fn new(accelerator: Box<dyn Accelerator>) -> Engine {
        Engine {
            accelerator,
            modules: Modules::default(),
            records: None,
            queues: Mutex::default(),
            free_words: Mutex::default(),
            parked: Mutex::default(),
        }
    }

    pub(crate) fn elapsed_us(&self, start: u64, end: u64) -> Result<f64, Error> {
        // SAFETY: both events are held by `Event`s of this engine, which release them only when dropped.
        unsafe { self.accelerator.elapsed_us(start, end) }
    }

    pub(crate) fn release_event(&self, event: u64) {
        // SAFETY: called by the only owner of the event, when it is dropped.
        unsafe { self.accelerator.release_event(event) }
    }

    /// Frees what was dropped during captures that have ended.
    fn release_parked(&self) {
        let parked = std::mem::take(&mut *lock(&self.parked));
        // What is still used by a capture parks itself again.
        drop(parked);
    }
}

/// Two handles of one engine.
pub(crate) fn same(left: &Arc<Engine>, right: &Arc<Engine>) -> bool {
    Arc::ptr_eq(left, right)
}
