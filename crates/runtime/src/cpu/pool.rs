//! The threads of a process. A forked child has the pools of its parent without their threads, and whoever
//! waited for those would wait for ever, so that the child's first call starts a pool of its own.
#![expect(unsafe_code, reason = "a lock would be held for ever in a child that was forked meanwhile")]

use std::process;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::Error;

/// The process that rayon's own pool has its threads in; 0 before it was used.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// The pool of a forked child; null, or never freed: it may be that of the child's parent.
static OF_CHILD: AtomicPtr<OfChild> = AtomicPtr::new(std::ptr::null_mut());

struct OfChild {
    process: u32,
    pool: ThreadPool,
}

/// Runs `work` on threads of this process.
///
/// # Errors
/// [`Error::Io`] where the system gives a forked child no threads.
pub(super) fn install<R: Send>(work: impl FnOnce() -> R + Send) -> Result<R, Error> {
    let here = process::id();
    match STARTED.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(work()),
        Err(started) if started == here => Ok(work()),
        Err(_) => Ok(of_child(here)?.install(work)),
    }
}

/// A new pool; of as many threads as there are cores where `threads` is 0.
///
/// # Errors
/// [`Error::Io`] when the system gives no such threads.
pub(super) fn new(threads: usize) -> Result<ThreadPool, Error> {
    ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| Error::Io {
        doing: match threads {
            0 => "starting a thread for each core".to_owned(),
            _ => format!("starting {threads} threads"),
        },
        error: std::io::Error::other(error),
    })
}

fn of_child(here: u32) -> Result<&'static ThreadPool, Error> {
    let known = OF_CHILD.load(Ordering::Acquire);
    // SAFETY: null, or of a box that was given up below and is never freed.
    if let Some(of_child) = unsafe { known.as_ref() }
        && of_child.process == here
    {
        return Ok(&of_child.pool);
    }
    let made = Box::into_raw(Box::new(OfChild { process: here, pool: new(0)? }));
    match OF_CHILD.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above, and it is no longer freed.
        Ok(_) => Ok(&unsafe { &*made }.pool),
        Err(first) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: as above; another thread of this process put it there.
            Ok(&unsafe { &*first }.pool)
        }
    }
}
