//! The current context of a thread. Every call of ours sets its device's, and
//! leaves the thread as it found it.
#![expect(unsafe_code, reason = "a C library")]

use std::ptr;

use cudarc::driver::result::{DriverError, ctx};
use cudarc::driver::sys::CUcontext;

/// Until it is dropped, a context is the thread's current one.
pub(super) struct Entered {
    /// What was current, where it was another one.
    before: Option<CUcontext>,
}

impl Entered {
    /// Makes `context` current: one that is retained as long as the process lives.
    pub(super) fn new(context: CUcontext) -> Result<Entered, DriverError> {
        let before = ctx::get_current()?.unwrap_or(ptr::null_mut());
        if before == context {
            return Ok(Entered { before: None });
        }
        // SAFETY: the context is alive: nobody releases it.
        unsafe { ctx::set_current(context) }?;
        Ok(Entered { before: Some(before) })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it was current when this began, and this thread has not destroyed it since;
            // null makes none current. Nothing can be done about a failure.
            let _ = unsafe { ctx::set_current(before) };
        }
    }
}
