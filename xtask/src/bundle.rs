//! Release binaries for a GPU machine without a Rust toolchain.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{cargo, root, run, target};

/// Tests that a GPU machine runs, by name.
const TESTS: [&str; 1] = ["gpu"];

/// Collects `rowloom` and the GPU tests, stripped, in `target/bundle`.
pub(crate) fn run_bundle() -> Result<(), String> {
    let folder = target().join("bundle");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let mut build = cargo();
    build.args(["build", "--release", "--package", "rowloom-cli"]);
    // There is no repository on the GPU machine, and a report names its commit.
    if let Some(commit) = commit() {
        build.env("ROWLOOM_COMMIT", commit);
    }
    run(&mut build)?;
    collect(&target().join("release/rowloom"), &folder.join("rowloom"))?;
    for test in TESTS {
        collect(&built_test(test)?, &folder.join(test))?;
    }
    println!(
        "On the GPU machine: ROWLOOM_REQUIRE_GPU=1 ./gpu && ./rowloom report adaln_row_gather --device cuda:0 --out r.json"
    );
    println!("{}", folder.display());
    Ok(())
}

/// The commit, with `-dirty` behind it when tracked files differ.
fn commit() -> Option<String> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let output = Command::new("git").arg("-C").arg(root()).args(describe).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The path of a test binary, from cargo's own messages.
fn built_test(name: &str) -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["test", "--release", "--no-run", "--package", "rowloom", "--test", name, "--message-format=json"]);
    let output = build.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("test `{name}` does not build"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let key = "\"executable\":\"";
    let mut paths = text.lines().filter_map(|line| Some(line.split_once(key)?.1.split_once('"')?.0));
    let path = paths.rfind(|path| path.contains(&format!("/{name}-")));
    path.map(PathBuf::from).ok_or_else(|| format!("cargo names no binary of test `{name}`"))
}

fn collect(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map_err(|error| format!("cannot copy {}: {error}", from.display()))?;
    run(Command::new("strip").arg(to))
}
