//! The search for the fastest schedule of one subject at one S.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rowloom_codegen::{Choice, Subject};
use rowloom_runtime::cache::Settings;
use rowloom_runtime::tuning::search::{Candidate, Found, Step, Stopped, search};
use rowloom_runtime::tuning::{For, Journal, Outcome, Provenance, Record, Trial};

use super::bench::Steps;
use super::protocol::{Job, Text};
use super::results::Result as Tuned;
use super::search::{Run, note, today};
use super::subjects::Named;
use crate::error::{Error, Result};

impl Run {
    /// Searches for as long as `budget`, which opening the data is part of.
    pub fn tune(&mut self, named: &Named, positions: u64, budget: Duration) -> Result<Tuned> {
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
        let key = For::of(subject, self.machine.arch, positions);
        let mut steps = Steps::new(workers, job, space.clone(), place);
        let here = steps.provenance(default)?;
        let mut journal = journal(&key, positions, &here, &self.layouts)?;
        if !journal.is_empty() {
            let count = journal.len();
            bar.suspend(|| note(&format!("{title}: going on with {count} candidates of an interrupted run")));
        }
        let left = budget.saturating_sub(start.elapsed());
        let observe = &mut |step| show(bar, &title, &space, step);
        let found =
            search(&candidates, place, &mut steps, left, &mut journal, observe).map_err(|stopped| match stopped {
                Stopped::Bench(error) => error,
                Stopped::Default(reason) => Error::failed(format!(
                    "{title}: the default schedule ({default}) does not run as it must: {reason}"
                )),
            })?;
        accuse(bar, &title, &found.trials);
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
}

/// Names every candidate that lies.
fn accuse(bar: &ProgressBar, title: &str, trials: &[Trial]) {
    for Trial { schedule, outcome } in trials {
        if let Outcome::Differs { differs, .. } = outcome {
            bar.suspend(|| {
                note(&format!(
                    "warning: {title}: {schedule} writes other bytes than it must, which is a fault of rowloom; \
                     please report it: {differs}"
                ));
            });
        }
    }
}

fn candidate(subject: &Subject, choice: &Choice) -> Candidate {
    let source = subject.generate(choice).map(|source| source.hash().to_string()).map_err(|fault| fault.to_string());
    Candidate { schedule: *choice, source }
}

/// The journal of a search, beside the cached code; in memory alone where there is no such folder.
fn journal(key: &For, positions: u64, here: &Provenance, layouts: &[String]) -> Result<Journal> {
    let search = serde_json::to_string(&(key, positions, here, layouts)).map_err(Error::failed)?;
    Ok(match Settings::from_environment().0.folder {
        Some(folder) => Journal::in_folder(&folder, &search),
        None => Journal::in_memory(),
    })
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
