//! What a user should know although nothing failed, said once a process on
//! standard error.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;

use crate::once::lock;

/// What was said already.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says one line, unless this topic was spoken of before. Where there are many of a kind, each of
/// which is to be named, the topic tells which one it is.
pub(crate) fn once(topic: &str, message: &str) {
    if lock(&SAID).insert(topic.to_owned()) {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "rowloom: {message}");
    }
}
