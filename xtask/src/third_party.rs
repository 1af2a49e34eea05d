//! The crates that are linked into the wheel, with their licenses: a page that the wheel carries.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::command::{cargo, root, shown};

const HEAD: &str = "\
# Third-party code

Made by `cargo xtask third-party`. What is linked into the native module of the wheel besides rowloom's
own crates and Rust's standard library (MIT OR Apache-2.0); each crate's text of its license is in its
source, `https://crates.io/crates/NAME/VERSION`.

| crate | version | license |
|---|---|---|
";

/// What the wheel is built for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Where the page lies.
pub(crate) fn path() -> PathBuf {
    root().join("python/THIRD_PARTY.md")
}

/// Writes the page.
pub(crate) fn write() -> Result<(), String> {
    std::fs::write(path(), page()?).map_err(|error| format!("cannot write {}: {error}", path().display()))
}

/// An error unless the page says what is linked now.
pub(crate) fn check() -> Result<(), String> {
    let known = std::fs::read_to_string(path()).unwrap_or_default();
    if known == page()? {
        return Ok(());
    }
    Err(format!(
        "{} is not what is linked now; run `cargo xtask third-party` and look at what changed",
        path().display()
    ))
}

/// The page as the locked dependencies give it.
fn page() -> Result<String, String> {
    let mut tree = cargo();
    // Macros and build scripts run where the wheel is built, and are not in it.
    tree.args(["tree", "--locked", "--package", "rowloom-python", "--edges", "normal,no-proc-macro"]);
    tree.args(["--target", TARGET, "--prefix", "none", "--format", "{p}|{l}"]);
    let output = tree.output().map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}", shown(&tree), said.trim()));
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let rows = lines.lines().map(row).collect::<Result<Vec<_>, String>>()?;
    let rows: BTreeSet<String> = rows.into_iter().flatten().collect();
    Ok(rows.into_iter().fold(HEAD.to_owned(), |page, row| page + &row))
}

/// The row of a line `name vVERSION|license`; none of rowloom's own crates, which have a path.
fn row(line: &str) -> Result<Option<String>, String> {
    let (package, license) = line.split_once('|').ok_or_else(|| format!("cargo tree says `{line}`"))?;
    // A crate that was shown before is marked so.
    let license = license.trim_end_matches("(*)").trim();
    let mut words = package.split(' ');
    let (Some(name), Some(version)) = (words.next(), words.next()) else {
        return Err(format!("cargo tree says `{line}`"));
    };
    if words.next().is_some_and(|place| place.starts_with("(/")) {
        return Ok(None);
    }
    if license.is_empty() {
        return Err(format!("{name} {version} states no license; look for one before it is linked"));
    }
    Ok(Some(format!("| {name} | {} | {license} |\n", version.trim_start_matches('v'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_crates_are_left_out_and_what_has_no_license_is_an_error() {
        let found = row("half v2.7.1|MIT OR Apache-2.0 (*)").unwrap();
        assert_eq!(found.as_deref(), Some("| half | 2.7.1 | MIT OR Apache-2.0 |\n"));
        assert_eq!(row("rowloom v0.1.0 (/src/rowloom)|MIT OR Apache-2.0").unwrap(), None);
        assert!(row("free v1.0.0|").unwrap_err().contains("free v1.0.0 states no license"));
        assert!(row("half").is_err());
    }
}
