//! The search for the fastest schedule of one subject at one S.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rowloom_codegen::{Choice, Subject};
use rowloom_runtime::cache::Settings;
use rowloom_runtime::tuning::search::{Candidate, Found, Step, Stopped, search};
use rowloom_runtime::tuning::{For, Journal, Outcome, Provenance, Record, Records, Trial};

use super::bench::Steps;
use super::protocol::{Job, Text};
use super::results::Result as Tuned;
use super::search::{Run, note, today};
use super::subjects::Named;
use crate::error::{Error, Result};

impl Run {
    /// Searches for as long as `budget`, which opening the data is part of. An error does not say of
    /// which subject it is.
    pub fn tune(&mut self, named: &Named, positions: u64, budget: Duration) -> Result<Tuned> {
        let Named { name, subject, indices, .. } = named;
        let title = format!("{name}, S = {positions}");
        let start = Instant::now();
        let default = subject.default_choice();
        let Some(default) = default else {
            return Err(Error::failed("the tile that the kernel declares leaves no schedule"));
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
        let mut steps = Steps::new(workers, job, space.clone(), place, budget.saturating_sub(start.elapsed()));
        let here = steps.provenance(default)?;
        let mut journal = match &here {
            Some(here) => journal(&key, positions, here, &self.layouts)?,
            // The data took all of the time: the search tells what was not tried.
            None => Journal::in_memory(),
        };
        if !journal.is_empty() {
            let count = journal.len();
            bar.suspend(|| note(&format!("{title}: going on with {count} candidates of an interrupted run")));
        }
        let left = if here.is_some() { budget.saturating_sub(start.elapsed()) } else { Duration::ZERO };
        let observe = &mut |step| show(bar, &title, &space, step);
        let found =
            search(&candidates, place, &mut steps, left, &mut journal, observe).map_err(|stopped| match stopped {
                Stopped::Bench(error) => error,
                Stopped::Default(reason) => {
                    Error::failed(format!("the default schedule ({default}) does not run as it must: {reason}"))
                }
            })?;
        accuse(bar, &title, &found.trials);
        steps.give_grace();
        let Found { trials, winner, default_us, winner_us, complete, .. } = found;
        let winner = space[winner];
        let provenance = if winner == default { here } else { steps.provenance(winner)? };
        let earlier_stays = match &provenance {
            Some(here) if complete && winner == default => earlier(&mut steps, &key, default, here, &trials),
            Some(_) | None => None,
        };
        let seconds = start.elapsed().as_secs_f64();
        let (record, candidates) = match provenance.filter(|_| default_us.is_finite()) {
            Some(provenance) => {
                let (date, candidates) = (today(), trials);
                let record = Record {
                    key,
                    provenance,
                    positions,
                    default,
                    winner,
                    default_us,
                    winner_us,
                    seconds,
                    date,
                    candidates,
                };
                (Some(record), Vec::new())
            }
            None => (None, trials),
        };
        // Its provenance may have come too late.
        let complete = complete && record.is_some();
        Ok(Tuned {
            complete,
            seconds,
            record,
            earlier_stays,
            candidates,
            searched: true,
            ..Tuned::none(named, positions)
        })
    }
}

/// Why the record that there is of this key stays, in place of the default: a search whose candidates
/// failed has not shown that the default is as fast.
fn earlier(steps: &mut Steps<'_>, key: &For, default: Choice, here: &Provenance, trials: &[Trial]) -> Option<String> {
    let earlier = Records::of_process().kept(key, &here.product)?;
    if earlier.winner == default || earlier.check().is_err() {
        return None;
    }
    let failed = |trial: &&Trial| matches!(trial.outcome, Outcome::Failed { .. });
    let own = trials.iter().find(|trial| trial.schedule == earlier.winner);
    let others = trials.iter().filter(|trial| !matches!(trial.outcome, Outcome::Illegal { .. })).count();
    let all_failed = trials.iter().filter(failed).count();
    let why = match own {
        Some(own) if failed(&own) => "its winner failed in this search".to_owned(),
        // It was shown to write other bytes, or is no candidate any more.
        Some(Trial { outcome: Outcome::Differs { .. } | Outcome::Illegal { .. }, .. }) | None => return None,
        Some(_) if 2 * all_failed > others => format!("{all_failed} of {others} candidates failed in this search"),
        Some(_) => return None,
    };
    let usable = matches!(steps.provenance(earlier.winner), Ok(Some(made)) if made == earlier.provenance);
    usable.then(|| format!("the earlier record stays ({}): {why}", earlier.winner))
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
