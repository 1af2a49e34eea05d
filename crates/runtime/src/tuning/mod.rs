//! Which schedule runs: what was found by measuring, kept as records.
//!
//! A record names what it is for exactly, holds the schedule itself, every time
//! that was measured, and where. It is used only where everything that it names
//! is so again ([`Machine::check`]); then every call that asks for no schedule uses it.

mod chosen;
mod command;
mod compile;
mod data;
pub(crate) mod journal;
mod machine;
mod problem;
mod record;
pub mod search;
mod sheet;
mod store;
mod testbed;

pub use crate::notice::one_line;
pub use chosen::{Chosen, ChosenBy};
pub use compile::{Generate, compile};
pub use data::Indices;
pub use journal::{Journal, Known};
pub use machine::{Machine, Refusal};
pub use record::{Bucket, For, Outcome, Provenance, Record, Trial};

pub use sheet::{Of, Sheet};
pub use store::{Added, Found, Kept, Records, Refused};
pub use testbed::Testbed;
