//! What a thread has set for its calls of the driver: the current context, and what it
//! may do while streams are captured. Calls of ours leave both as they found them.
#![expect(unsafe_code, reason = "a C library")]

use std::ptr;

use cudarc::driver::result::{DriverError, ctx};
use cudarc::driver::sys::{self, CUcontext, CUstreamCaptureMode};

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

/// Until it is dropped, no call of the thread counts as part of another stream's capture.
pub(super) struct Relaxed {
    /// The mode of the thread before.
    before: CUstreamCaptureMode,
}

impl Relaxed {
    pub(super) fn new() -> Result<Relaxed, DriverError> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a mode, which the driver swaps with the thread's.
        unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result()?;
        Ok(Relaxed { before: mode })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above. Nothing can be done about a failure.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut self.before) };
    }
}
