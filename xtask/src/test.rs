//! The whole test suite in one command.

use std::process::Command;

use crate::command::{cargo, run, works};
use crate::totals::cargo_test;
use crate::{nvrtc, python};

/// Formatting, lints, docs and tests, with NVRTC and g++ at hand, every benchmark once, and the
/// Python package. Prints the sum of all test runners' results last.
pub(crate) fn run_suite() -> Result<(), String> {
    compiler()?;
    let nvrtc = nvrtc::path()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]).env("ROWLOOM_NVRTC", &nvrtc).env("INSTA_UPDATE", "no");
    let mut totals = cargo_test(&mut tests)?;
    // Built as tests are, and without `--bench` on their command line, they time nothing.
    let mut benchmarks = cargo();
    benchmarks.args(["test", "--workspace", "--no-fail-fast", "--bench", "*"]).env("ROWLOOM_NVRTC", &nvrtc);
    let benchmarks = run(&mut benchmarks);
    let package = python::test(&nvrtc).map(|package| totals += package);
    println!("{totals}");
    benchmarks?;
    package?;
    totals.outcome()
}

/// The types and tests of the Python package alone.
pub(crate) fn run_package() -> Result<(), String> {
    let totals = python::test(&nvrtc::path()?)?;
    println!("{totals}");
    totals.outcome()
}

/// The emulation compiles generated kernels with g++.
fn compiler() -> Result<(), String> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
    if works(Command::new(&compiler).arg("--version")) {
        return Ok(());
    }
    let install = || {
        run(Command::new("apt-get").args(["update", "--quiet"]))?;
        run(Command::new("apt-get").args(["install", "--yes", "--quiet", "g++"]))
    };
    install().map_err(|error| format!("tests need g++: {error}; install it, or set CXX"))
}
