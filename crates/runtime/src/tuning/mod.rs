//! Which schedule runs: what was found by measuring, kept as records.
//!
//! A record names what it is for exactly, holds the schedule itself, every time
//! that was measured, and where. It is used only where everything that it names
//! is so again.

mod record;

pub use record::{Bucket, For, Outcome, Provenance, Record, Trial};
