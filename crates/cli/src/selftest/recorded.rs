//! Digests that the CPU executor made, as a file: a line a case, its digest and its name.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};

/// Those that came with this version.
const BUILT_IN: &str = include_str!("../../data/selftest.txt");

/// Digests by the names of their cases.
pub struct Recorded(BTreeMap<String, String>);

impl Recorded {
    /// Of a file, or those that came with this version.
    pub fn open(path: Option<&Path>) -> Result<Recorded> {
        let Some(path) = path else { return Recorded::parse(BUILT_IN, "the recorded digests") };
        let text = std::fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        Recorded::parse(&text, &path.display().to_string())
    }

    fn parse(text: &str, name: &str) -> Result<Recorded> {
        let mut digests = BTreeMap::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (at, line) in lines {
            let parts = line.split_once(' ').filter(|(digest, _)| {
                digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
            });
            let refuse = |what: &str| Err(Error::failed(format!("line {} of {name} {what}", at + 1)));
            let Some((digest, case)) = parts else { return refuse("is no digest and name of a case") };
            if digests.insert(case.to_owned(), digest.to_owned()).is_some() {
                return refuse("names a case that an earlier line names");
            }
        }
        Ok(Recorded(digests))
    }

    /// Of these cases.
    pub fn of(digests: impl IntoIterator<Item = (String, String)>) -> Recorded {
        Recorded(digests.into_iter().collect())
    }

    /// The digest of a case.
    pub fn get(&self, case: &str) -> Option<&str> {
        self.0.get(case).map(String::as_str)
    }

    /// As a file holds them.
    pub fn text(&self) -> String {
        let head = "# blake3 of the outputs of each case of `rowloom selftest`, made by the CPU executor with\n\
                    # cargo run --release -- selftest --device cpu --record crates/cli/data/selftest.txt\n";
        let lines = self.0.iter().map(|(case, digest)| format!("{digest} {case}\n"));
        head.to_owned() + &lines.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let digest = |digit: char| digit.to_string().repeat(64);
        let recorded = Recorded::of([("a b".to_owned(), digest('0')), ("c".to_owned(), digest('f'))]);
        let read = Recorded::parse(&recorded.text(), "it").unwrap();
        assert_eq!(read.get("a b"), Some(&*digest('0')));
        assert_eq!(read.get("c"), Some(&*digest('f')));
        assert_eq!(read.get("d"), None);
    }

    #[test]
    fn a_line_that_means_nothing_is_refused() {
        let error = |text: &str| Recorded::parse(text, "it").map(|_| ()).unwrap_err().to_string();
        assert_eq!(error("# head\nabc case"), "line 2 of it is no digest and name of a case");
        let twice = format!("{0} a\n{0} a\n", "0".repeat(64));
        assert_eq!(error(&twice), "line 2 of it names a case that an earlier line names");
    }
}
