//! What a user should know although nothing failed, said once a process on
//! standard error.

use std::collections::BTreeSet;
use std::fmt::Write as _;
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
        let _ = writeln!(std::io::stderr(), "rowloom: {}", one_line(message));
    }
}

/// The same text without letters that control a terminal: what comes from a file may have any.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            let _ = write!(line, "{}", letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_written_out() {
        assert_eq!(one_line("a\x1b[31m\nb\u{9b}ü"), "a\\u{1b}[31m\\nb\\u{9b}ü");
    }
}
