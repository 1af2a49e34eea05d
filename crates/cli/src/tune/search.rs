//! The search of `rowloom tune KERNEL`.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_codegen::Choice;
use rowloom_runtime::cache::Settings;
use rowloom_runtime::tuning::search::{Candidate, Found, Step, Stopped, search};
use rowloom_runtime::tuning::{For, Journal, Provenance, Record, Records};

use super::bench::{Steps, Workers};
use super::child::Machine;
use super::protocol::{Job, Text};
use super::results::{Ceilings, Result as Tuned, Results};
use super::subjects::{Named, Sizes, subjects};
use super::{Args, figure, table};
use crate::error::{Error, Result};
use crate::kernels;
use crate::output::{self, Output};
use crate::report::environment::commit;

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let [name] = &args.kernels[..] else {
        return Err(Error::usage("tune searches for one kernel at a time; write its name, as `rowloom list` has it"));
    };
    let kernel = kernels::find(name)?;
    let missing = |flag: &str| Error::usage(format!("tune needs {flag}; see `rowloom tune --help`"));
    let dtype = args.dtype.ok_or_else(|| missing("--dtype"))?;
    if args.positions.is_empty() {
        return Err(missing("--positions"));
    }
    if args.rows.is_empty() {
        return Err(missing("--rows"));
    }
    let device = device(args)?;
    let declaration = (kernel.declaration)();
    // What makes no sense is said before a device is looked for.
    let sizes = |arch| Sizes { args, dtype, arch };
    for &positions in &args.positions {
        subjects(declaration, &sizes(rowloom_codegen::Arch::SM_90), positions)?;
    }
    let output = args.out.as_deref().map(|path| Output::open_with(path, &figure::FILES)).transpose()?;

    let mut run = Run { workers: Workers::start(&device)?, bar: bar(), layouts: layouts(args) };
    let machine = run.workers.machine()?;
    let mut list = Vec::new();
    let mut positions = args.positions.clone();
    positions.sort_unstable();
    positions.dedup();
    for positions in positions {
        list.extend(
            subjects(declaration, &sizes(machine.arch), positions)?.into_iter().map(|named| (positions, named)),
        );
    }
    if list.is_empty() {
        return Err(Error::usage(format!("{name} has nothing of what --only names")));
    }
    let begin = Instant::now();
    let mut tuned: Vec<Tuned> = Vec::new();
    let mut failed = Vec::new();
    let mut ceilings = Ceilings::default();
    for (at, (positions, named)) in list.iter().enumerate() {
        if at == 0 || list[at - 1].0 != *positions {
            let bytes = list.iter().filter(|(other, _)| other == positions).map(|(_, named)| named.most_bytes());
            let speeds = run.workers.ceiling(bytes.max().unwrap_or(1))?;
            ceilings.insert(*positions, speeds);
        }
        // Each has the same part of what is left.
        let left = args.budget.saturating_sub(begin.elapsed()) / (list.len() - at) as u32;
        let start = Instant::now();
        let result = match run.tune(&machine, named, *positions, left) {
            Ok(result) => result,
            // The others may have a result, and what they have is not lost.
            Err(error) => {
                run.say(&format!("error: {error}"));
                failed.push(named.name.clone());
                Tuned {
                    name: named.name.clone(),
                    positions: *positions,
                    complete: false,
                    seconds: start.elapsed().as_secs_f64(),
                    read_bytes: named.read_bytes,
                    written_bytes: named.written_bytes,
                    record: None,
                    failed: Some(error.to_string()),
                    candidates: Vec::new(),
                }
            }
        };
        match &result.record {
            // What a short budget could not improve says nothing against an earlier record.
            Some(record) if result.complete || record.winner != record.default => {
                Records::of_process().add(record).map_err(Error::failed)?;
            }
            None if result.failed.is_some() => {}
            Some(_) | None => {
                let Tuned { name, positions, .. } = &result;
                run.say(&format!(
                    "{name}, S = {positions}: no record is kept, for the budget ran out; give a longer --budget"
                ));
            }
        }
        tuned.push(result);
    }
    run.bar.finish_and_clear();
    let (rowloom_commit, tracked_tree_dirty) = commit();
    let results = Results {
        kind: "rowloom_tuning",
        op: kernel.name,
        dtype: dtype.to_string(),
        hidden: args.hidden,
        rows: declaration
            .forward()
            .counts
            .iter()
            .cloned()
            .zip(kernels::counts(declaration.forward(), &args.rows)?)
            .collect(),
        index: args.index.to_string(),
        layouts: run.layouts.clone(),
        device: machine.name.clone(),
        product: machine.product.clone(),
        driver: machine.driver.clone(),
        rowloom_commit,
        tracked_tree_dirty,
        date: today(),
        seconds: begin.elapsed().as_secs_f64(),
        ceilings,
        results: tuned,
    };
    let text = serde_json::to_string_pretty(&results).map_err(Error::failed)? + "\n";
    if let Some(output) = output {
        let (png, svg) = figure::drawn(&results)?;
        let beside = figure::FILES.map(str::to_owned);
        let beside: Vec<(String, &[u8])> = beside.into_iter().zip([&*png, svg.as_bytes()]).collect();
        output.write_with(text.as_bytes(), &beside)?;
    }
    output::print(if args.json { text } else { table::table(&results) }.as_bytes())?;
    match (failed.len(), list.len()) {
        (0, _) => Ok(()),
        (failed, all) => Err(Error::failed(format!("{failed} of {all} searches came to no result; see above"))),
    }
}

/// The device's name; a CPU has nothing to choose.
fn device(args: &Args) -> Result<String> {
    let name = args.device.as_deref().unwrap_or("cuda:0");
    let ordinal = name.strip_prefix("cuda:").map(|digits| digits.parse::<u32>().is_ok());
    match (name, ordinal) {
        ("cpu", _) => Err(Error::usage(rowloom_runtime::Error::NoSchedules)),
        ("cuda" | "emulated", _) | (_, Some(true)) => Ok(name.to_owned()),
        _ => Err(Error::usage(rowloom_runtime::Error::UnknownDevice(name.to_owned()))),
    }
}

fn layouts(args: &Args) -> Vec<String> {
    args.layout.iter().map(ToString::to_string).collect()
}

/// A run's device and what its user sees.
struct Run {
    workers: Workers,
    bar: ProgressBar,
    layouts: Vec<String>,
}

impl Run {
    fn tune(&mut self, machine: &Machine, named: &Named, positions: u64, budget: Duration) -> Result<Tuned> {
        let Named { name, subject, indices, .. } = named;
        let title = format!("{name}, S = {positions}");
        let start = Instant::now();
        let default = subject.default_choice();
        let Some(default) = default else {
            return Err(Error::failed(format!("{title}: the tile that the kernel declares leaves no schedule")));
        };
        let mut space = subject.space();
        let place = space.iter().position(|choice| *choice == default).unwrap_or_else(|| {
            space.insert(0, default);
            0
        });
        let candidates: Vec<Candidate> = space.iter().map(|choice| candidate(subject, choice)).collect();
        let job = Job {
            subject: Text::of(subject),
            positions,
            default,
            indices: indices.clone(),
            layouts: self.layouts.clone(),
        };
        let (bar, workers) = (&self.bar, &mut self.workers);
        bar.set_message(format!("{title}: data"));
        let mut steps = Steps::new(workers, job, space.clone(), place);
        let key = For::of(subject, machine.arch, positions);
        let here = steps.provenance(default)?;
        let mut journal = journal(&key, positions, &here, &self.layouts)?;
        if !journal.is_empty() {
            let count = journal.len();
            bar.suspend(|| note(&format!("{title}: going on with {count} candidates of an interrupted run")));
        }
        let observe = &mut |step| show(bar, &title, &space, step);
        let found =
            search(&candidates, place, &mut steps, budget, &mut journal, observe).map_err(|stopped| match stopped {
                Stopped::Bench(error) => error,
                Stopped::Default(reason) => Error::failed(format!(
                    "{title}: the default schedule ({default}) does not run as it must: {reason}"
                )),
            })?;
        for trial in &found.trials {
            if let rowloom_runtime::tuning::Outcome::Differs { differs, .. } = &trial.outcome {
                let schedule = &trial.schedule;
                bar.suspend(|| {
                    note(&format!(
                        "warning: {title}: {schedule} writes other bytes than it must, which is a fault of rowloom; \
                         please report it: {differs}"
                    ));
                });
            }
        }
        let provenance = if found.winner == place { here } else { steps.provenance(space[found.winner])? };
        let Found { trials, winner, default_us, winner_us, complete, .. } = found;
        let measured = default_us.is_finite();
        let record = Record {
            key,
            provenance,
            positions,
            default,
            winner: space[winner],
            default_us,
            winner_us,
            seconds: start.elapsed().as_secs_f64(),
            date: today(),
            candidates: trials,
        };
        let Named { read_bytes, written_bytes, .. } = *named;
        let (name, seconds) = (name.clone(), record.seconds);
        let candidates = record.candidates.clone();
        let record = measured.then_some(record);
        Ok(Tuned { name, positions, complete, seconds, read_bytes, written_bytes, record, failed: None, candidates })
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }
}

/// One line on standard error.
fn note(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn candidate(subject: &rowloom_codegen::Subject, choice: &Choice) -> Candidate {
    let source = subject.generate(choice).map(|source| source.hash().to_string()).map_err(|fault| fault.to_string());
    Candidate { schedule: *choice, source }
}

/// The journal of a search, beside the cached code; in memory alone where there is no such folder.
fn journal(key: &For, positions: u64, here: &Provenance, layouts: &[String]) -> Result<Journal> {
    let search = serde_json::to_string(&(key, positions, here, layouts)).map_err(Error::failed)?;
    let folder: Option<PathBuf> = Settings::from_environment().0.folder;
    let name = blake3::hash(search.as_bytes()).to_hex();
    Ok(match folder {
        Some(folder) => Journal::open(&folder.join("searches").join(&name[..32]), &search),
        None => Journal::in_memory(),
    })
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{pos:>4}/{len:4} {bar:20} {elapsed:>4} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, title: &str, space: &[Choice], step: Step) {
    let (done, of, what) = match step {
        Step::Compiling { done, of } => (done, of, "compiling".to_owned()),
        Step::Gating { done, of } => (done, of, "comparing bytes".to_owned()),
        Step::Round { round, of, candidates } => (round, of, format!("timing {candidates} candidates")),
        Step::RunOff { pair, of } => (pair, of, "run-off".to_owned()),
        Step::Liar { candidate } => {
            bar.set_message(format!("{title}: {} writes other bytes", space[candidate]));
            return;
        }
    };
    bar.set_length(of as u64);
    bar.set_position(done as u64);
    bar.set_message(format!("{title}: {what}"));
}

fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}
