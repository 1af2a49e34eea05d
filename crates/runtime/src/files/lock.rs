//! One writer or compiler of one thing at a time, over all processes.
//!
//! The lock is the operating system's on an open file: it goes with the process
//! that holds it, however that ends. A file that was left behind means nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A held lock. Its file goes when it is released: a newcomer makes another, and
/// whoever has waited for the one that went does so too.
pub(crate) struct Held {
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
pub(crate) enum Outcome {
    Held(Held),
    /// Somebody alive has held it for all of the timeout.
    TimedOut,
    /// This folder has no locks.
    None(io::Error),
}

/// Waits for the lock of this file, `timeout` at most.
pub(crate) fn lock(path: &Path, timeout: Duration) -> Outcome {
    // A pipe would be opened once somebody reads it; a link leads to what is not ours.
    if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
        return Outcome::None(io::Error::other("its lock is no regular file"));
    }
    let open = || OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let mut file = match open() {
        Ok(file) => file,
        Err(error) => return Outcome::None(error),
    };
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match file.try_lock() {
            Ok(()) if lies_at(&file, path) => return Outcome::Held(Held { path: path.to_owned(), _file: file }),
            Ok(()) => match open() {
                Ok(newer) => {
                    file = newer;
                    continue;
                }
                Err(error) => return Outcome::None(error),
            },
            Err(TryLockError::Error(error)) => return Outcome::None(error),
            Err(TryLockError::WouldBlock) if start.elapsed() >= timeout => return Outcome::TimedOut,
            Err(TryLockError::WouldBlock) => {}
        }
        std::thread::sleep(pause.min(timeout.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Whether an open file is still the one of this path.
#[cfg(unix)]
pub(crate) fn lies_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let same =
        |file: &std::fs::Metadata, there: &std::fs::Metadata| (file.dev(), file.ino()) == (there.dev(), there.ino());
    matches!((file.metadata(), path.symlink_metadata()), (Ok(file), Ok(there)) if same(&file, &there))
}

/// Other systems remove no file that is open.
#[cfg(not(unix))]
pub(crate) fn lies_at(_: &File, _: &Path) -> bool {
    true
}
