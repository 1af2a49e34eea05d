//! What test runners say, added up.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, ExitStatus, Stdio};

use crate::command::shown;

/// What test runners said together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    ended_well: bool,
}

impl Totals {
    const NONE: Totals = Totals { passed: 0, failed: 0, skipped: 0, ended_well: true };

    /// Whether all went well.
    pub(crate) fn outcome(&self) -> Result<(), String> {
        if self.failed == 0 && self.ended_well { Ok(()) } else { Err("some tests failed".to_owned()) }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.ended_well &= other.ended_well;
    }
}

/// Runs `cargo test`, passes its output on, and adds up what the runners say.
pub(crate) fn cargo_test(command: &mut Command) -> Result<Totals, String> {
    let mut totals = Totals::NONE;
    let mut skipped_for_want_of_a_gpu = 0;
    let status = passed_on(command, |line| {
        if let Some(result) = line.strip_prefix("test result: ") {
            totals.passed += count(result, &["passed"]);
            totals.failed += count(result, &["failed"]);
            totals.skipped += count(result, &["ignored"]);
        } else if line.contains("skipped: no CUDA device") {
            skipped_for_want_of_a_gpu += 1;
        }
    })?;
    totals.ended_well = status.success();
    // Their runner counts them as passed.
    totals.passed = totals.passed.saturating_sub(skipped_for_want_of_a_gpu);
    totals.skipped += skipped_for_want_of_a_gpu;
    Ok(totals)
}

/// Runs pytest, passes its output on, and reads its last line.
pub(crate) fn pytest(command: &mut Command) -> Result<Totals, String> {
    let mut totals = Totals::NONE;
    let status = passed_on(command, |line| totals = of_pytest(line).unwrap_or(totals))?;
    // Without any test it ends badly too.
    totals.ended_well = status.success();
    Ok(totals)
}

/// What pytest's last line says: `=== 1 failed, 12 passed, 2 skipped in 0.12s ===`.
fn of_pytest(line: &str) -> Option<Totals> {
    let said = line.strip_prefix('=')?.trim_matches('=');
    if !said.split_whitespace().any(|word| word == "in")
        || !said.trim().starts_with(|first: char| first.is_ascii_digit())
    {
        return None;
    }
    Some(Totals {
        passed: count(said, &["passed", "xpassed"]),
        failed: count(said, &["failed", "error", "errors"]),
        skipped: count(said, &["skipped", "xfailed", "deselected"]),
        ended_well: true,
    })
}

/// Runs to the end, handing out each line that it prints, which is printed here too.
fn passed_on(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let shown = shown(command);
    eprintln!("xtask: {shown}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("`{shown}` did not start: {error}"))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("cannot read what `{shown}` prints: {error}"))?;
            println!("{line}");
            each(&line);
        }
    }
    child.wait().map_err(|error| format!("`{shown}`: {error}"))
}

/// The numbers before these words, together: `ok. 12 passed; 0 failed`.
fn count(said: &str, of: &[&str]) -> u64 {
    let words: Vec<&str> = said.split([' ', ';', '.', ',']).filter(|word| !word.is_empty()).collect();
    let numbers = words.windows(2).filter(|pair| of.contains(&pair[1])).filter_map(|pair| pair[0].parse::<u64>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::{Totals, count, of_pytest};

    #[test]
    fn a_runners_line_is_read() {
        let line = "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.04s";
        assert_eq!((count(line, &["passed"]), count(line, &["failed"]), count(line, &["ignored"])), (12, 3, 1));
    }

    #[test]
    fn the_last_line_of_pytest_is_read() {
        let totals = |passed, failed, skipped| Some(Totals { passed, failed, skipped, ended_well: true });
        let line = "======= 1 failed, 231 passed, 62 skipped, 3 warnings, 2 errors in 61.20s (0:01:01) =======";
        assert_eq!(of_pytest(line), totals(231, 3, 62));
        assert_eq!(of_pytest("===== 4 passed, 1 xfailed, 2 xpassed, 5 deselected in 0.01s ====="), totals(6, 0, 6));
        for other in [
            "============ short test summary info ============",
            "============ test session starts ============",
            "SKIPPED [1] tests/test_native.py:9: skipped: no CUDA device",
            "= 2 of them in words =",
        ] {
            assert!(of_pytest(other).is_none_or(|totals| totals == Totals::NONE), "{other}");
        }
    }
}
