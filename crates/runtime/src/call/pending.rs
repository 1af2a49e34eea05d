//! Calls that nobody has waited for yet.

use std::fmt;
use std::sync::Arc;

use rowloom_codegen::ir::Kernel;

use super::prepared::Prepared;
use crate::engine::{Check, Word};
use crate::error::Error;
use crate::grouped;
use crate::launch::IndexFault;
use crate::plan::fault;
use crate::stream::{Lane, Stream};
use crate::tensor::AnyView;

/// The result of a deferred call: its work is queued, its indices are not known to be
/// right yet. `'t` is the lifetime of what it reads.
///
/// Where it is dropped without [`Pending::wait`], an index that was out of bounds is
/// [`Error::Deferred`] of the stream's next call or synchronisation after that is known.
#[must_use = "an index out of bounds shows when it is waited for, or at a later call"]
pub struct Pending<'t, T> {
    stream: Stream,
    /// `None` once it was waited for or left to the stream.
    state: Option<State<'t>>,
    result: Option<T>,
}

enum State<'t> {
    /// Nothing is left to check.
    Right,
    /// The CPU has found an index out of its bound.
    Wrong { kernel: String, error: Error },
    /// Whatever the word says. Of each input the first tensor: an index has one.
    Queued { prepared: Arc<Prepared>, word: Word, inputs: Vec<AnyView<'t>> },
}

impl<'t> Pending<'t, ()> {
    /// Of work that was done.
    pub(super) fn of_host(stream: &Stream, kernel: &str, done: Result<(), Error>) -> Result<Pending<'t, ()>, Error> {
        let state = match done {
            Ok(()) => State::Right,
            Err(error @ Error::Index { .. }) => State::Wrong { kernel: kernel.to_owned(), error },
            Err(other) => return Err(other),
        };
        Ok(Pending { stream: stream.clone(), state: Some(state), result: Some(()) })
    }

    /// Of work that was queued.
    pub(super) fn queued(
        stream: &Stream,
        kernel: &Kernel,
        prepared: Arc<Prepared>,
        word: Option<Word>,
        inputs: &[AnyView<'t>],
    ) -> Pending<'t, ()> {
        let state = match word {
            Some(word) => {
                let inputs = grouped::inputs(kernel, inputs).map(|(_, tensors)| tensors[0]).collect();
                State::Queued { prepared, word, inputs }
            }
            None => State::Right,
        };
        Pending { stream: stream.clone(), state: Some(state), result: Some(()) }
    }

    /// The same with what the call has made.
    pub(crate) fn with<T>(mut self, result: T) -> Pending<'t, T> {
        Pending { stream: self.stream.clone(), state: self.state.take(), result: Some(result) }
    }
}

impl<T> Pending<'_, T> {
    /// Waits for the call and hands out its result.
    ///
    /// # Errors
    /// [`Error::Index`] for an index out of its bound; [`Error::Captured`]; what the device reports.
    pub fn wait(mut self) -> Result<T, Error> {
        if let Lane::Accelerator(queue) = &self.stream.0 {
            // Refused, it is left to the stream.
            queue.refuse_capture("waiting for a deferred call")?;
        }
        match self.state.take() {
            None | Some(State::Right) => {}
            Some(State::Wrong { error, .. }) => return Err(error),
            Some(State::Queued { prepared, word, inputs }) => {
                if let Lane::Accelerator(queue) = &self.stream.0
                    && let Some(found) = IndexFault::of(word.wait(&queue.engine)?)
                {
                    let value = inputs[found.term].integer(&self.stream, found.position)?;
                    return Err(fault(prepared.term(found), found.position, value));
                }
            }
        }
        Ok(self.take())
    }

    /// Hands out its result without waiting: where an index was out of its bound it is
    /// unspecified, which the stream's next call or synchronisation reports.
    pub fn unchecked(mut self) -> T {
        self.leave();
        self.take()
    }

    fn take(&mut self) -> T {
        self.result.take().expect("only methods that consume it take the result")
    }

    /// Leaves what is not known yet to the stream.
    fn leave(&mut self) {
        match (self.state.take(), &self.stream.0) {
            (
                Some(State::Wrong { kernel, error: Error::Index { argument, position, bound, pad, .. } }),
                Lane::Cpu(host),
            ) => {
                let error = Error::Deferred { kernel, argument, position, bound, pad };
                host.unclaimed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_back(error);
            }
            (Some(State::Queued { prepared, word, .. }), Lane::Accelerator(queue)) => {
                let error = move |word| deferred(&prepared, word);
                queue.leave(Check { word, error: Box::new(error) });
            }
            (Some(State::Right | State::Wrong { .. } | State::Queued { .. }) | None, _) => {}
        }
    }
}

/// The error of a word that is not all ones. The index itself may be gone, and its value with it.
fn deferred(prepared: &Prepared, word: u64) -> Error {
    let found = IndexFault { position: word / 256, term: (word % 256) as usize };
    let term = prepared.term(found);
    Error::Deferred {
        kernel: prepared.kernel.clone(),
        argument: term.name.clone(),
        position: found.position,
        bound: term.bound,
        pad: term.pad,
    }
}

impl<T> Drop for Pending<'_, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T> fmt::Debug for Pending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({:?})", self.stream)
    }
}
