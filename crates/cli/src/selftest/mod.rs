//! `rowloom selftest`: whether a device gives the bytes that the CPU executor gave.

mod cases;
mod execute;
mod inputs;
mod recorded;

use std::path::PathBuf;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_runtime::{Device, Registered, registered};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::kernels;
use crate::output::{self, Output};

use cases::Case;
use execute::Run;
use recorded::Recorded;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom selftest
  rowloom selftest --device cpu
  rowloom selftest adaln_row_gather --device cuda:0 --json";

/// Compares digests of every kernel's outputs with those that the CPU executor made.
///
/// Kernels in both directions, element types, accumulators, packings and schedules. Of kernels
/// that came with rowloom the digests are recorded; of others this machine's CPU makes them.
/// On a CPU it takes seconds; emulated, where every schedule is compiled by g++, some minutes.
/// Progress is shown where standard error is a terminal.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel, by its name in `rowloom list` [default: all].
    kernel: Option<String>,
    /// Where it runs: cpu, cuda:0 or emulated [default: cuda:0 where there is one, else cpu].
    #[arg(long)]
    device: Option<String>,
    /// File of digests to compare with, instead of those recorded.
    #[arg(long, conflicts_with = "record")]
    digests: Option<PathBuf>,
    /// File to write the CPU's digests to, comparing nothing.
    #[arg(long, conflicts_with = "kernel")]
    record: Option<PathBuf>,
    /// Every case as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Outcome {
    device: String,
    product: String,
    arch: Option<String>,
    passed: bool,
    cases: Vec<CaseOutcome>,
}

#[derive(Serialize)]
struct CaseOutcome {
    case: String,
    /// What every run must give.
    digest: String,
    /// Whether `digest` is recorded; else this machine's CPU made it.
    recorded: bool,
    runs: usize,
    differing: Vec<Differing>,
}

#[derive(Serialize)]
struct Differing {
    run: String,
    digest: String,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let kernels: Vec<&'static Registered> = match &args.kernel {
        Some(name) => vec![kernels::find(name)?],
        None => registered().collect(),
    };
    let device = match &args.device {
        Some(word) => word.parse().map_err(|error| {
            if matches!(error, rowloom_runtime::Error::UnknownDevice(_)) {
                return Error::usage(error);
            }
            Error::failed(error)
        })?,
        None => Device::best().map_err(Error::failed)?,
    };
    let cases = cases::of_kernels(&kernels)?;
    if let Some(path) = &args.record {
        return record(&cases, &device, path);
    }
    let recorded = Recorded::open(args.digests.as_deref())?;
    let outcome = compare(&cases, &device, &recorded)?;
    let text =
        if args.json { serde_json::to_string_pretty(&outcome).map_err(Error::failed)? + "\n" } else { outcome.text() };
    output::print(text.as_bytes())?;
    match outcome.cases.iter().find(|case| !case.differing.is_empty()) {
        None => Ok(()),
        Some(first) => {
            let count = outcome.cases.iter().filter(|case| !case.differing.is_empty()).count();
            let (device, name) = (&outcome.device, &first.case);
            Err(Error::failed(format!("{count} cases differ on {device}, the first is `{name}`")))
        }
    }
}

/// Writes the CPU's digests.
fn record(cases: &[Case], device: &Device, path: &std::path::Path) -> Result<()> {
    if *device != Device::cpu() {
        return Err(Error::usage("digests are recorded on the CPU; add --device cpu"));
    }
    let output = Output::open(Some(path))?;
    let bar = progress(cases.len());
    let digest = |case: &Case| {
        let digest = execute::reference(case).map_err(|error| Error::failed(format!("{}: {error}", case.name)))?;
        bar.inc(1);
        Ok((case.name.clone(), digest))
    };
    let digests = cases.iter().map(digest).collect::<Result<Vec<_>>>()?;
    bar.finish_and_clear();
    output.write(Recorded::of(digests).text().as_bytes())
}

/// Runs every case. On a GPU several threads compile; the CPU executor has all cores anyway.
fn compare(cases: &[Case], device: &Device, recorded: &Recorded) -> Result<Outcome> {
    let on_gpu = device.name().starts_with("cuda");
    let threads = if on_gpu { std::thread::available_parallelism().map_or(1, usize::from).min(8) } else { 1 };
    let bar = progress(cases.len());
    let next = Mutex::new(cases.iter().enumerate());
    let work = || {
        let mut done = Vec::new();
        loop {
            let taken = next.lock().ok().and_then(|mut cases| cases.next());
            let Some((at, case)) = taken else { return Ok(done) };
            done.push((at, one(case, device, recorded)?));
            bar.inc(1);
        }
    };
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<(usize, CaseOutcome)>>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    bar.finish_and_clear();
    let mut done: Vec<(usize, CaseOutcome)> = done.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    let cases: Vec<CaseOutcome> = done.into_iter().map(|(_, case)| case).collect();
    let passed = cases.iter().all(|case| case.differing.is_empty());
    let arch = device.arch().map(|arch| arch.to_string());
    Ok(Outcome { device: device.name(), product: device.product(), arch, passed, cases })
}

fn one(case: &Case, device: &Device, recorded: &Recorded) -> Result<CaseOutcome> {
    let failed = |error: rowloom_runtime::Error| Error::failed(format!("{}: {error}", case.name));
    let runs = execute::on(device, case).map_err(failed)?;
    let known = recorded.get(&case.name);
    let digest = match known {
        Some(digest) => digest.to_owned(),
        None => execute::reference(case).map_err(failed)?,
    };
    let differs = |Run { how, digest: found }: &Run| {
        (*found != digest).then(|| Differing { run: how.clone(), digest: found.clone() })
    };
    let differing = runs.iter().filter_map(differs).collect();
    Ok(CaseOutcome { case: case.name.clone(), recorded: known.is_some(), runs: runs.len(), differing, digest })
}

fn progress(cases: usize) -> ProgressBar {
    let bar = ProgressBar::new(cases as u64);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {bar:30} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

impl Outcome {
    fn text(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            for Differing { run, digest } in &case.differing {
                text += &format!("differs: {}\n  {run}\n  {digest}, must be {}\n", case.case, case.digest);
            }
        }
        let runs: usize = self.cases.iter().map(|case| case.runs).sum();
        let differing: usize = self.cases.iter().map(|case| case.differing.len()).sum();
        let here = self.cases.iter().filter(|case| !case.recorded).count();
        let arch = self.arch.as_ref().map_or_else(String::new, |arch| format!(", {arch}"));
        let (device, product) = (&self.device, &self.product);
        text += &format!("{} cases, {runs} runs on {device} ({product}{arch}), {differing} differ", self.cases.len());
        if here > 0 {
            text += &format!("; {here} have no recorded digest and were compared with this machine's CPU");
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Vec<Case> {
        let kernels: Vec<_> = registered().filter(|kernel| kernel.name == "row_gather").collect();
        let mut cases = cases::of_kernels(&kernels).unwrap();
        cases.retain(|case| case.positions < 500);
        cases
    }

    #[test]
    fn every_case_of_rowloom_is_recorded_and_no_other() {
        let cases = cases::of_kernels(&registered().collect::<Vec<_>>()).unwrap();
        let recorded = Recorded::open(None).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        for name in &names {
            assert!(recorded.get(name).is_some(), "`{name}` is not recorded");
        }
        let digests = cases.iter().map(|case| (case.name.clone(), recorded.get(&case.name).unwrap().to_owned()));
        assert_eq!(Recorded::of(digests).text(), recorded.text(), "record again");
    }

    #[test]
    fn an_emulated_gpu_gives_the_recorded_digests() {
        let recorded = Recorded::open(None).unwrap();
        let outcome = compare(&small(), &Device::emulated(3).unwrap(), &recorded).unwrap();
        assert!(outcome.passed, "{}", outcome.text());
        assert!(outcome.cases.iter().all(|case| case.recorded && case.runs > 2));
    }

    #[test]
    fn a_wrong_digest_fails_and_is_named() {
        let cases = small();
        let right = Recorded::open(None).unwrap();
        let wrong = "0".repeat(64);
        let digests = cases.iter().enumerate().map(|(at, case)| {
            let digest = if at == 1 { &wrong } else { right.get(&case.name).unwrap() };
            (case.name.clone(), digest.to_owned())
        });
        let outcome = compare(&cases, &Device::cpu(), &Recorded::of(digests)).unwrap();
        assert!(!outcome.passed);
        let differing: Vec<&str> =
            outcome.cases.iter().filter(|case| !case.differing.is_empty()).map(|case| case.case.as_str()).collect();
        assert_eq!(differing, [cases[1].name.as_str()]);
        assert!(outcome.text().contains(&format!("differs: {}", cases[1].name)));
    }

    #[test]
    fn a_case_without_a_record_is_compared_with_the_cpu() {
        let outcome = compare(&small()[..1], &Device::cpu(), &Recorded::of([])).unwrap();
        assert!(outcome.passed && !outcome.cases[0].recorded);
    }
}
