//! Words that are copied to the host behind a kernel, and the deferred calls
//! that nobody waits for any more.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Engine, Queue, Region, Submission};
use crate::error::Error;
use crate::once::lock;

/// Words allocated at once: page-locked memory is slow to get.
const PAGE: u64 = 512;

/// A u64 on its way to the host. Whoever holds it gives it back with [`Word::release`].
#[must_use]
pub(crate) struct Word {
    address: u64,
    /// Follows the copy. `None` where copies are done when a call returns.
    event: Option<u64>,
}

impl Word {
    /// Queues the copy of the word at `offset` of a region. The region's memory
    /// may be dropped at once: it is freed behind the copy.
    pub(crate) fn fetch(queue: &Submission<'_>, region: &Region<'_>, offset: u64) -> Result<Word, Error> {
        let engine = &queue.engine;
        let address = engine.take_word()?;
        // SAFETY: the region has a word there, as the source states; the host's word is ours until
        // the event has happened.
        unsafe { engine.accelerator.download_later(queue.raw, region.address() + offset, address)? };
        // On an error the copy may be under way: the word is not used again.
        Ok(Word { address, event: engine.accelerator.record(queue.raw)? })
    }

    /// Its value, if the copy is done.
    fn value(&self, engine: &Engine) -> Result<Option<u64>, Error> {
        let done = match self.event {
            // SAFETY: the event is held by this word.
            Some(event) => unsafe { engine.accelerator.is_done(event)? },
            None => true,
        };
        Ok(done.then(|| self.read()))
    }

    /// Its value, once the copy is done; gives the word back.
    pub(crate) fn wait(self, engine: &Engine) -> Result<u64, Error> {
        if let Some(event) = self.event {
            // SAFETY: the event is held by this word.
            let finished = unsafe { engine.accelerator.finish(event) };
            if let Err(error) = finished {
                self.abandon(engine);
                return Err(error);
            }
        }
        let value = self.read();
        self.release(engine);
        Ok(value)
    }

    /// What stands there now: the value, once the copy is done.
    fn read(&self) -> u64 {
        // SAFETY: a word of host memory that lives as long as the engine.
        unsafe { std::ptr::read_volatile(self.address as *const u64) }
    }

    /// Gives a word back whose copy is done.
    fn release(self, engine: &Engine) {
        if let Some(event) = self.event {
            engine.release_event(event);
        }
        lock(&engine.free_words).push(self.address);
    }

    /// Gives back all but the word itself, which a copy may still write to.
    fn abandon(self, engine: &Engine) {
        if let Some(event) = self.event {
            engine.release_event(event);
        }
    }
}

impl Engine {
    fn take_word(&self) -> Result<u64, Error> {
        let mut free = lock(&self.free_words);
        if let Some(word) = free.pop() {
            return Ok(word);
        }
        let page = self.accelerator.allocate_words(PAGE)?;
        free.extend((1..PAGE).map(|at| page + at * 8));
        Ok(page)
    }
}

/// The word of a deferred call, and the error that it means unless it is all ones.
pub(crate) struct Check {
    pub(crate) word: Word,
    pub(crate) error: Box<dyn FnOnce(u64) -> Error + Send + Sync>,
}

/// The checks of one stream that were left to it, in order.
#[derive(Default)]
pub(super) struct Unclaimed {
    /// Whether there are any: read on every call.
    any: AtomicBool,
    checks: Mutex<VecDeque<Check>>,
}

impl Queue {
    /// Leaves a check to this stream's next call.
    pub(crate) fn leave(&self, check: Check) {
        let mut checks = lock(&self.unclaimed.checks);
        checks.push_back(check);
        self.unclaimed.any.store(true, Ordering::Release);
    }

    /// The first error among the checks that were left and are done, without waiting.
    pub(crate) fn unclaimed_error(&self) -> Result<(), Error> {
        // The driver lets nobody ask for events while a stream is captured.
        if !self.unclaimed.any.load(Ordering::Acquire) || self.is_captured()? {
            return Ok(());
        }
        let mut checks = lock(&self.unclaimed.checks);
        while let Some(front) = checks.front() {
            let Some(value) = front.word.value(&self.engine)? else { return Ok(()) };
            let Some(Check { word, error }) = checks.pop_front() else { break };
            word.release(&self.engine);
            if value != u64::MAX {
                return Err(error(value));
            }
        }
        self.unclaimed.any.store(false, Ordering::Release);
        Ok(())
    }

    /// Gives back what the checks hold that nobody can ask for any more.
    pub(super) fn drop_unclaimed(&mut self) {
        let checks = std::mem::take(&mut *lock(&self.unclaimed.checks));
        for Check { word, .. } in checks {
            match word.value(&self.engine) {
                Ok(Some(_)) => word.release(&self.engine),
                Ok(None) | Err(_) => word.abandon(&self.engine),
            }
        }
    }
}
