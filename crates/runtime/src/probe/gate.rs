//! Where a thread is held up in the middle of a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::once::lock;

/// Where a piece of work may be held up.
#[derive(Default)]
pub(super) struct Gate {
    /// Whether `hold` is other than `No`: read on every launch.
    closed: AtomicBool,
    hold: Mutex<Hold>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    No,
    Next,
    Held,
}

impl Gate {
    pub(super) fn set(&self, hold: Hold) {
        self.closed.store(hold != Hold::No, Ordering::SeqCst);
        *lock(&self.hold) = hold;
        self.changed.notify_all();
    }

    pub(super) fn wait_while(&self, hold: Hold) {
        let guard = self.changed.wait_while(lock(&self.hold), |now| *now == hold);
        drop(guard.unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn pass(&self) {
        if !self.closed.load(Ordering::SeqCst) {
            return;
        }
        let mut hold = lock(&self.hold);
        if *hold == Hold::Next {
            *hold = Hold::Held;
            self.changed.notify_all();
            drop(hold);
            self.wait_while(Hold::Held);
        }
    }
}
