//! The whole test suite in one command.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::command::{cargo, run, shown, works};
use crate::nvrtc;

/// Formatting, lints, docs and tests, with NVRTC and g++ at hand, and every benchmark once.
/// Prints the sum of all test runners' results last.
pub(crate) fn run_suite() -> Result<(), String> {
    compiler()?;
    let nvrtc = nvrtc::path()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]).env("ROWLOOM_NVRTC", &nvrtc).env("INSTA_UPDATE", "no");
    let totals = counted(&mut tests)?;
    // Built as tests are, and without `--bench` on their command line, they time nothing.
    let mut benchmarks = cargo();
    benchmarks.args(["test", "--workspace", "--no-fail-fast", "--bench", "*"]).env("ROWLOOM_NVRTC", nvrtc);
    let benchmarks = run(&mut benchmarks);
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped);
    benchmarks?;
    if totals.failed == 0 && totals.ended_well { Ok(()) } else { Err("some tests failed".to_owned()) }
}

/// What all test runners said together.
#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    ended_well: bool,
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

/// Runs `cargo test`, passes its output on, and adds up what the runners say.
fn counted(command: &mut Command) -> Result<Totals, String> {
    let shown = shown(command);
    eprintln!("xtask: {shown}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("`{shown}` did not start: {error}"))?;
    let mut totals = Totals::default();
    let mut skipped_for_want_of_a_gpu = 0;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cannot read what `{shown}` prints: {error}"))?;
            println!("{line}");
            if let Some(result) = line.strip_prefix("test result: ") {
                totals.passed += count(result, "passed");
                totals.failed += count(result, "failed");
                totals.skipped += count(result, "ignored");
            } else if line.contains("skipped: no CUDA device") {
                skipped_for_want_of_a_gpu += 1;
            }
        }
    }
    let status = child.wait().map_err(|error| format!("`{shown}`: {error}"))?;
    totals.ended_well = status.success();
    // Their runner counts them as passed.
    totals.passed = totals.passed.saturating_sub(skipped_for_want_of_a_gpu);
    totals.skipped += skipped_for_want_of_a_gpu;
    Ok(totals)
}

/// The number before a word: `ok. 12 passed; 0 failed`.
fn count(result: &str, word: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|other| *other == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn a_runners_line_is_read() {
        let line = "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.04s";
        assert_eq!((count(line, "passed"), count(line, "failed"), count(line, "ignored")), (12, 3, 1));
    }
}
