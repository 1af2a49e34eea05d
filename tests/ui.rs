//! The language, seen from outside: what compiles, and the message for each rule
//! that is broken, in `tests/ui/<rule>/<case>.stderr`. To accept new messages, run
//! with `TRYBUILD=overwrite` and review the difference.

use std::path::{Path, PathBuf};

/// Compiled with strict lints and run.
const PASS: &str = "pass";

/// A message says what to do with one of these words.
const HELPS: [&str; 14] = [
    "write", "delete", "choose", "name", "keep", "use", "move", "give", "declare", "put", "make", "return", "read",
    "change",
];

#[test]
fn every_rule_has_its_message() {
    let cases = trybuild::TestCases::new();
    cases.pass(format!("tests/ui/{PASS}/*.rs"));
    for rule in folders() {
        cases.compile_fail(format!("tests/ui/{rule}/*.rs"));
    }
}

/// Users did not write the compiler: its words are not theirs.
#[test]
fn no_message_speaks_of_the_inside() {
    let words = [
        "NodeId",
        "InputId",
        "RowId",
        "CountId",
        "Fault",
        "Extent",
        "InputKind",
        "Place",
        "Decl",
        "syn",
        "ident",
        "panicked",
        "unwrap",
        "token",
        "IR",
        "node",
        "lower",
        "parse",
    ];
    let mut seen = 0;
    for file in messages() {
        for line in std::fs::read_to_string(&file).unwrap().lines().filter(|line| line.starts_with("error")) {
            seen += 1;
            let mut found = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| {
                let numbered = word.strip_prefix(['v', 'r']).is_some_and(|rest| rest.parse::<u32>().is_ok());
                words.contains(word) || numbered
            });
            assert_eq!(found.next(), None, "{}: {line}", file.display());
            let helps = line.split(|c: char| !c.is_alphanumeric()).any(|word| HELPS.contains(&word));
            assert!(helps, "{}: no word on what to do: {line}", file.display());
        }
    }
    assert!(seen > 100, "only {seen} messages found");
}

/// The folders of broken rules.
fn folders() -> Vec<String> {
    let entries = std::fs::read_dir("tests/ui").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<String> = entries.filter(|name| name != PASS).collect();
    folders.sort();
    folders
}

/// The files that hold expected messages.
fn messages() -> Vec<PathBuf> {
    let in_folder = |rule: String| std::fs::read_dir(Path::new("tests/ui").join(rule)).unwrap();
    let files = folders().into_iter().flat_map(in_folder).map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "stderr")).collect()
}
