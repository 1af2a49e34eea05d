//! The search of `rowloom tune KERNEL`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_codegen::{Arch, DType};
use rowloom_runtime::tuning::Records;
use rowloom_runtime::{Declaration, Registered};

use super::child::Machine;
use super::results::{Ceilings, Result as Tuned, Results};
use super::subjects::{Named, Sizes, subjects};
use super::workers::Workers;
use super::{Args, figure, refuse_own, table};
use crate::error::{Error, Result};
use crate::kernels;
use crate::output::{self, Output};
use crate::report::environment::commit;

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let wanted = Wanted::of(args)?;
    let output = args.out.as_deref().map(|path| Output::open_with(path, &figure::FILES)).transpose()?;
    if let Some(path) = output.as_ref().and_then(Output::path) {
        refuse_own(Records::of_process(), path, "--out")?;
    }
    let mut run = Run::start(args, &wanted.device)?;
    let list = wanted.list(run.machine.arch)?;
    let (tuned, ceilings) = run.all(&list);
    run.bar.finish_and_clear();
    let results = wanted.results(&run, tuned, ceilings)?;
    publish(&results, output, args.json)?;
    let failed = results.results.iter().filter(|result| result.failed.is_some()).count();
    let mut faults = Vec::new();
    if failed > 0 {
        faults.push(format!("{failed} of {} searches came to no result; see above", results.results.len()));
    }
    if let Some((what, why)) = &run.unkept {
        faults.push(format!("the records of {} are not kept: {why}", what.join("; ")));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::failed(faults.join("; "))) }
}

/// What the command line asks for, where it makes sense.
struct Wanted<'a> {
    args: &'a Args,
    kernel: &'static Registered,
    declaration: &'static Declaration,
    dtype: DType,
    /// S, each once, smallest first.
    positions: Vec<u64>,
    device: String,
}

impl<'a> Wanted<'a> {
    /// What makes no sense is said before a device is looked for.
    fn of(args: &'a Args) -> Result<Wanted<'a>> {
        let [name] = &args.kernels[..] else {
            return Err(Error::usage(
                "tune searches for one kernel at a time; write its name, as `rowloom list` has it",
            ));
        };
        let kernel = kernels::find(name)?;
        let missing = |flag: &str| Error::usage(format!("tune needs {flag}; see `rowloom tune --help`"));
        let dtype = args.dtype.ok_or_else(|| missing("--dtype"))?;
        let mut positions = args.positions.clone();
        positions.sort_unstable();
        positions.dedup();
        if positions.is_empty() {
            return Err(missing("--positions"));
        }
        let (declaration, device) = ((kernel.declaration)(), device(args)?);
        let wanted = Wanted { args, kernel, declaration, dtype, positions, device };
        if wanted.list(Arch::SM_90)?.is_empty() {
            return Err(Error::usage(format!("{name} has nothing of what --only names")));
        }
        Ok(wanted)
    }

    /// Everything to search for, by its S.
    fn list(&self, arch: Arch) -> Result<Vec<(u64, Named)>> {
        let sizes = Sizes { args: self.args, dtype: self.dtype, arch };
        let mut list = Vec::new();
        for &positions in &self.positions {
            list.extend(subjects(self.declaration, &sizes, positions)?.into_iter().map(|named| (positions, named)));
        }
        Ok(list)
    }

    fn results(&self, run: &Run, results: Vec<Tuned>, ceilings: Ceilings) -> Result<Results> {
        let Wanted { args, kernel, declaration, dtype, .. } = self;
        let (rowloom_commit, tracked_tree_dirty) = commit();
        let forward = declaration.forward();
        let rows = forward.counts.iter().cloned().zip(kernels::counts(forward, &args.rows)?);
        Ok(Results {
            kind: "rowloom_tuning",
            op: kernel.name,
            dtype: dtype.to_string(),
            hidden: args.hidden,
            rows: rows.collect(),
            index: args.index.to_string(),
            layouts: run.layouts.clone(),
            device: run.machine.name.clone(),
            product: run.machine.product.clone(),
            driver: run.machine.driver.clone(),
            rowloom_commit,
            tracked_tree_dirty,
            date: today(),
            seconds: run.begin.elapsed().as_secs_f64(),
            ceilings,
            results,
        })
    }
}

/// Writes the file, its figure, and what is printed.
fn publish(results: &Results, output: Option<Output>, json: bool) -> Result<()> {
    let text = serde_json::to_string_pretty(results).map_err(Error::failed)? + "\n";
    let write = |output: Output| {
        let (png, svg) = figure::drawn(results)?;
        let beside = figure::FILES.map(str::to_owned);
        let beside: Vec<(String, &[u8])> = beside.into_iter().zip([&*png, svg.as_bytes()]).collect();
        output.write_with(text.as_bytes(), &beside)
    };
    // What cannot be written is printed all the same.
    let written = output.map_or(Ok(()), write);
    output::print(if json { text } else { table::table(results) }.as_bytes())?;
    written
}

/// The device's name; a CPU has nothing to choose.
fn device(args: &Args) -> Result<String> {
    let name = args.device.as_deref().unwrap_or("cuda:0");
    let ordinal = name.strip_prefix("cuda:").map(|digits| {
        // A number may be read with a sign.
        digits.bytes().all(|digit| digit.is_ascii_digit()) && digits.parse::<u32>().is_ok()
    });
    match (name, ordinal) {
        ("cpu", _) => Err(Error::usage(rowloom_runtime::Error::NoSchedules)),
        ("cuda" | "emulated", _) | (_, Some(true)) => Ok(name.to_owned()),
        _ => Err(Error::usage(rowloom_runtime::Error::UnknownDevice(name.to_owned()))),
    }
}

/// A run's device and what its user sees.
pub struct Run {
    pub workers: Workers,
    pub machine: Machine,
    pub bar: ProgressBar,
    pub layouts: Vec<String>,
    begin: Instant,
    budget: Duration,
    /// Whose records could not be kept, and why the first one.
    unkept: Option<(Vec<String>, String)>,
}

impl Run {
    fn start(args: &Args, device: &str) -> Result<Run> {
        let begin = Instant::now();
        let mut workers = Workers::start(device, args.budget)?;
        let machine = workers.machine()?;
        let mut layouts: Vec<String> = Vec::new();
        for layout in args.layout.iter().map(ToString::to_string) {
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
        Ok(Run { workers, machine, bar: bar(), layouts, begin, budget: args.budget, unkept: None })
    }

    /// What is left of the budget.
    fn left(&self) -> Duration {
        self.budget.saturating_sub(self.begin.elapsed())
    }

    /// Searches for all of these and keeps the records.
    fn all(&mut self, list: &[(u64, Named)]) -> (Vec<Tuned>, Ceilings) {
        let (mut tuned, mut ceilings) = (Vec::new(), Ceilings::default());
        for (at, (positions, named)) in list.iter().enumerate() {
            if (at == 0 || list[at - 1].0 != *positions) && !self.left().is_zero() {
                let bytes = list.iter().filter(|(other, _)| other == positions).map(|(_, named)| named.most_bytes());
                let ceiling = self.workers.ceiling(bytes.max().unwrap_or(1), self.left());
                let ceiling = ceiling.unwrap_or_else(|error| {
                    self.say(&format!("warning: S = {positions}: how fast memory is was not measured: {error}"));
                    None
                });
                ceilings.insert(*positions, ceiling);
            }
            // Each has the same part of what is left.
            let result = self.one(named, *positions, self.left() / (list.len() - at) as u32);
            self.keep(&result);
            tuned.push(result);
        }
        (tuned, ceilings)
    }

    fn one(&mut self, named: &Named, positions: u64, budget: Duration) -> Tuned {
        let start = Instant::now();
        let failed = match budget.is_zero() {
            true => None,
            false => match self.tune(named, positions, budget) {
                Ok(result) => return result,
                // The others may have a result, and what they have is not lost.
                Err(error) => {
                    let error = format!("{}, S = {positions}: {error}", named.name);
                    self.say(&format!("error: {error}"));
                    Some(error)
                }
            },
        };
        let (searched, seconds) = (failed.is_some(), start.elapsed().as_secs_f64());
        Tuned { searched, seconds, failed, ..Tuned::none(named, positions) }
    }

    /// Keeps the record of a search that came to its end, where it can be.
    fn keep(&mut self, result: &Tuned) {
        match &result.record {
            Some(_) if result.earlier_stays.is_some() => {
                let Tuned { name, positions, earlier_stays, .. } = result;
                let why = earlier_stays.as_deref().unwrap_or_default();
                self.say(&format!("{name}, S = {positions}: {why}"));
            }
            Some(record) if result.complete => {
                if let Err(error) = Records::of_process().add(record) {
                    let what = format!("{}, S = {}", result.name, result.positions);
                    self.unkept.get_or_insert_with(|| (Vec::new(), error.to_string())).0.push(what);
                }
            }
            None if result.failed.is_some() => {}
            Some(_) | None => {
                let Tuned { name, positions, .. } = result;
                self.say(&format!(
                    "{name}, S = {positions}: no record is kept, for the budget ran out; give a longer --budget"
                ));
            }
        }
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }
}

/// One line on standard error.
pub fn note(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("{pos:>4}/{len:4} {bar:20} {elapsed:>4} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// As in `2026-11-30`.
pub fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}
