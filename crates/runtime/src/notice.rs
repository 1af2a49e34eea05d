//! What a user should know although nothing failed, said once a process on
//! standard error.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;

use crate::once::lock;

/// What was said already.
static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Says one line, unless this topic was spoken of before.
pub(crate) fn once(topic: &'static str, message: &str) {
    if lock(&SAID).insert(topic) {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "rowloom: {message}");
    }
}
