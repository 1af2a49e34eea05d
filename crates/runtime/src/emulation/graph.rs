//! Graphs of an emulated device: work that is kept instead of done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One piece of work of a stream.
pub(super) enum Work {
    Copy { to: u64, from: u64, bytes: u64 },
    Fill { address: u64, byte: u8, bytes: u64 },
    Launch { function: u64, grid: u32, threads: u32, args: Vec<u64> },
}

/// Captures under way and graphs made.
#[derive(Default)]
pub(super) struct Graphs(Mutex<State>);

#[derive(Default)]
struct State {
    made: u64,
    /// By stream.
    captures: HashMap<u64, Vec<Work>>,
    graphs: HashMap<u64, Arc<Vec<Work>>>,
}

impl Graphs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, stream: u64) {
        self.state().captures.insert(stream, Vec::new());
    }

    /// Keeps the work if the stream is captured, else gives it back to be done.
    pub(super) fn record(&self, stream: u64, work: Work) -> Option<Work> {
        match self.state().captures.get_mut(&stream) {
            Some(recorded) => {
                recorded.push(work);
                None
            }
            None => Some(work),
        }
    }

    pub(super) fn end(&self, stream: u64) -> u64 {
        let mut state = self.state();
        let recorded = state.captures.remove(&stream).unwrap_or_default();
        state.made += 1;
        let graph = state.made;
        state.graphs.insert(graph, Arc::new(recorded));
        graph
    }

    pub(super) fn is_captured(&self, stream: u64) -> bool {
        self.state().captures.contains_key(&stream)
    }

    pub(super) fn work(&self, graph: u64) -> Arc<Vec<Work>> {
        self.state().graphs.get(&graph).cloned().unwrap_or_default()
    }

    pub(super) fn release(&self, graph: u64) {
        self.state().graphs.remove(&graph);
    }
}
