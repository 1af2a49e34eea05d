//! One compilation of one kernel at a time, over all processes.
//!
//! The lock is the operating system's on an open file: it goes with the process
//! that holds it, however that ends. A file that was left behind means nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A held lock. Whoever gets it looks for the entry again before compiling, so
/// its file may go when it is released: a newcomer makes another.
pub(super) struct Held {
    path: PathBuf,
    /// Closing it releases the lock.
    _file: File,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How a lock came out.
pub(super) enum Outcome {
    Held(Held),
    /// Somebody alive has held it for all of the timeout.
    TimedOut,
    /// This folder has no locks.
    None,
}

/// Waits for the lock of this file, `timeout` at most.
pub(super) fn lock(path: &Path, timeout: Duration) -> Outcome {
    // A pipe would be opened once somebody reads it.
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return Outcome::None;
    }
    let Ok(file) = OpenOptions::new().create(true).truncate(false).write(true).open(path) else {
        return Outcome::None;
    };
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match file.try_lock() {
            Ok(()) => return Outcome::Held(Held { path: path.to_owned(), _file: file }),
            Err(TryLockError::Error(_)) => return Outcome::None,
            Err(TryLockError::WouldBlock) if start.elapsed() >= timeout => return Outcome::TimedOut,
            Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(pause.min(timeout.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
