//! The search for a schedule: which candidates are compiled, gated and timed, in which
//! order, and what the times decide. No device and no clock but those of a [`Bench`].
//!
//! The default runs in every round beside the others, and what beats it must do so in a
//! paired comparison, beyond the noise of that comparison: else the default stays.

mod bench;
mod decide;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::journal::Journal;
use super::record::Trial;
pub use bench::{Bench, Candidate, Found, Gate, Step, Stopped, Time};
use decide::{Verdict, median};
use status::Status;

/// Rounds in which all candidates are timed that are still in.
const ROUNDS: usize = 9;

/// Rounds after which the clearly slower are dropped: those whose best time is beyond the
/// leader's median by [`CLEARLY`].
const DROP_AFTER: usize = 3;
const CLEARLY: f64 = 1.04;

/// Candidates that meet the default in the run-off.
const FINALISTS: usize = 2;

/// Comparisons in the run-off.
const PAIRS: usize = 41;

/// Share of the budget after which the rounds end, so that the run-off has its time.
const ROUNDS_SHARE: f64 = 0.7;

/// Candidates that are compiled between two looks at the clock.
const COMPILED_AT_ONCE: usize = 64;

struct Search<'a, B: Bench> {
    bench: &'a mut B,
    journal: &'a mut Journal,
    observe: &'a mut dyn FnMut(Step),
    default: usize,
    status: Vec<Status>,
    /// Per candidate its times, each with its round.
    times: Vec<Vec<(usize, f64)>>,
    start: Duration,
    budget: Duration,
}

/// Searches. `default` is a place in `candidates`.
///
/// What the journal knows is not done again, but for the default, and every time is measured anew.
/// When the budget runs out before the end, the default wins.
///
/// # Errors
/// [`Stopped`].
pub fn search<B: Bench>(
    candidates: &[Candidate],
    default: usize,
    bench: &mut B,
    budget: Duration,
    journal: &mut Journal,
    observe: &mut dyn FnMut(Step),
) -> Result<Found, Stopped<B::Error>> {
    let status = candidates.iter().map(|candidate| Status::known(candidate, journal));
    let mut status: Vec<Status> = status.collect();
    // The default is what all is compared with: it is always looked at anew.
    if let Some(Status::Illegal(reason)) = status.get(default) {
        return Err(Stopped::Default(reason.clone()));
    }
    status[default] = Status::Legal;
    let start = bench.now();
    let times = vec![Vec::new(); candidates.len()];
    let mut search = Search { bench, journal, observe, default, status, times, start, budget };
    let complete = search.run(candidates)?;
    let (winner, default_us, winner_us) = if complete { search.decide() } else { search.undecided() };
    let took = search.elapsed();
    let trials = candidates.iter().enumerate().map(|(at, candidate)| Trial {
        schedule: candidate.schedule,
        outcome: search.status[at].outcome(&search.times[at]),
    });
    let trials = trials.collect();
    if complete {
        search.journal.finish();
    }
    Ok(Found { trials, winner, default_us, winner_us, took, complete })
}

impl<B: Bench> Search<'_, B> {
    /// All of it, or until the budget has run out: then `false`.
    fn run(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        Ok(self.compile(candidates)?
            && self.gate(candidates)?
            && self.rounds(candidates)?
            && self.run_off(candidates)?
            && self.confirm(candidates)?)
    }

    fn elapsed(&self) -> Duration {
        self.bench.now().saturating_sub(self.start)
    }

    fn has(&self, share: f64) -> bool {
        self.elapsed().as_secs_f64() < self.budget.as_secs_f64() * share
    }

    fn of_status(&self, wanted: &[Status]) -> Vec<usize> {
        let is_wanted = |at: &usize| wanted.contains(&self.status[*at]);
        // The default first.
        let others = (0..self.status.len()).filter(|&at| at != self.default).filter(is_wanted);
        std::iter::once(self.default).filter(is_wanted).chain(others).collect()
    }

    fn compile(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        let missing = self.of_status(&[Status::Legal]);
        let of = missing.len();
        let mut done = 0;
        for some in missing.chunks(COMPILED_AT_ONCE) {
            if !self.has(1.0) {
                return Ok(false);
            }
            let Search { bench, journal, observe, status, .. } = self;
            observe(Step::Compiling { done, of });
            let mut each = |at: usize, compiled: Result<(), String>| {
                done += 1;
                status[at] = match compiled {
                    Ok(()) => Status::Compiled,
                    Err(reason) => Status::NotCompiled(reason),
                };
                status[at].note(journal, &candidates[at]);
                observe(Step::Compiling { done, of });
            };
            bench.compile(some, &mut each).map_err(Stopped::Bench)?;
            self.default_is_well()?;
            if some.iter().any(|&at| self.status[at] == Status::Legal) {
                return Ok(false);
            }
        }
        self.default_is_well()?;
        Ok(true)
    }

    fn gate(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        let mut missing = self.of_status(&[Status::Compiled]);
        let of = missing.len();
        // What an interrupted run had begun may have hung it: everything else first.
        let begun = |journal: &Journal, at: usize| candidates[at].source.as_ref().is_ok_and(|it| journal.was_begun(it));
        missing.sort_by_key(|&at| at != self.default && begun(self.journal, at));
        for (done, at) in missing.into_iter().enumerate() {
            if !self.has(1.0) {
                return Ok(false);
            }
            (self.observe)(Step::Gating { done, of });
            if !self.gate_one(candidates, at)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the gate said something before the budget had run out.
    fn gate_one(&mut self, candidates: &[Candidate], at: usize) -> Result<bool, Stopped<B::Error>> {
        if let Ok(source) = &candidates[at].source {
            self.journal.begin(source);
        }
        self.status[at] = match self.bench.gate(at).map_err(Stopped::Bench)? {
            Gate::Equal => Status::Equal,
            Gate::Differs(place) => Status::Differs(place),
            Gate::Failed(reason) => Status::Failed(reason),
            Gate::Late => return Ok(false),
        };
        self.status[at].note(self.journal, &candidates[at]);
        if at == self.default {
            self.default_is_well()?;
        } else if matches!(self.status[at], Status::Differs(_)) {
            (self.observe)(Step::Liar { candidate: at });
        }
        Ok(true)
    }

    /// Compares the winner once more, after all its runs: a rare race may show by now. One that
    /// fails leaves the place to the next.
    fn confirm(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        loop {
            let (winner, ..) = self.decide();
            if winner == self.default {
                return Ok(true);
            }
            if !self.gate_one(candidates, winner)? {
                return Ok(false);
            }
            if self.status[winner] == Status::Equal {
                return Ok(true);
            }
        }
    }

    fn default_is_well(&self) -> Result<(), Stopped<B::Error>> {
        match &self.status[self.default] {
            Status::Differs(reason)
            | Status::NotCompiled(reason)
            | Status::Failed(reason)
            | Status::Illegal(reason) => Err(Stopped::Default(reason.clone())),
            Status::Legal | Status::Compiled | Status::Equal => Ok(()),
        }
    }

    /// Times a candidate once, as part of a round. Whether it ended before the budget did.
    fn time(&mut self, candidates: &[Candidate], at: usize, round: usize) -> Result<bool, Stopped<B::Error>> {
        // The gate is no launch as timing makes it: the first one is written down too.
        let is_first = self.times[at].is_empty();
        if is_first && let Ok(source) = &candidates[at].source {
            self.journal.begin(source);
        }
        match self.bench.time(at).map_err(Stopped::Bench)? {
            Time::Us(us) => {
                self.times[at].push((round, us));
                if is_first {
                    self.status[at].note(self.journal, &candidates[at]);
                }
            }
            Time::Late => return Ok(false),
            Time::Failed(reason) => {
                self.status[at] = Status::Failed(reason);
                self.status[at].note(self.journal, &candidates[at]);
                self.default_is_well()?;
            }
        }
        Ok(true)
    }

    fn rounds(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        let mut left = self.of_status(&[Status::Equal]);
        if left.len() < 2 {
            // Nothing to choose from: the default's time is all there is to know.
            for round in 0..ROUNDS {
                if round > 0 && !self.has(1.0) {
                    break;
                }
                if !self.time(candidates, self.default, round)? {
                    return Ok(round > 0);
                }
            }
            return Ok(true);
        }
        for round in 0..ROUNDS {
            if !self.has(ROUNDS_SHARE) {
                // Without a single one there are no finalists.
                if round == 0 {
                    return Ok(false);
                }
                break;
            }
            (self.observe)(Step::Round { round, of: ROUNDS, candidates: left.len() });
            for at in shuffled(&left, round) {
                if !self.has(1.0) || !self.time(candidates, at, round)? {
                    return Ok(false);
                }
            }
            left.retain(|&at| self.status[at] == Status::Equal);
            if round + 1 >= DROP_AFTER {
                let leader = left.iter().map(|&at| median(self.of(at))).fold(f64::INFINITY, f64::min);
                let best = |at: usize| self.of(at).fold(f64::INFINITY, f64::min);
                left.retain(|&at| at == self.default || best(at) <= leader * CLEARLY);
            }
        }
        Ok(true)
    }

    /// The best few against the default, in alternating order.
    fn run_off(&mut self, candidates: &[Candidate]) -> Result<bool, Stopped<B::Error>> {
        let mut finalists = self.best_few();
        if finalists.is_empty() {
            return Ok(true);
        }
        finalists.insert(0, self.default);
        for pair in 0..PAIRS {
            if !self.has(1.0) {
                return Ok(false);
            }
            (self.observe)(Step::RunOff { pair, of: PAIRS });
            finalists.rotate_left(1);
            let order: Vec<usize> = match pair % 2 {
                0 => finalists.clone(),
                _ => finalists.iter().rev().copied().collect(),
            };
            for at in order {
                if self.status[at] == Status::Equal && !self.time(candidates, at, ROUNDS + pair)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn of(&self, at: usize) -> impl Iterator<Item = f64> {
        self.times[at].iter().map(|&(_, us)| us)
    }

    /// The fastest by their medians among those that were never dropped, without the default.
    fn best_few(&self) -> Vec<usize> {
        let rounds = self.times.iter().map(Vec::len).max().unwrap_or(0);
        let mut best = self.of_status(&[Status::Equal]);
        best.retain(|&at| at != self.default && rounds > 0 && self.times[at].len() == rounds);
        best.sort_by(|&left, &right| median(self.of(left)).total_cmp(&median(self.of(right))));
        best.truncate(FINALISTS);
        best
    }

    /// The default, for want of an end, and what is known of its time.
    fn undecided(&self) -> (usize, f64, f64) {
        let us = median(self.of(self.default));
        (self.default, us, us)
    }

    /// The winner of the run-off, and the default's and its own time. Its pairs alone decide: who
    /// was chosen for being fast by chance is chosen no more.
    fn decide(&self) -> (usize, f64, f64) {
        let counted = |at: usize| {
            self.times[at].iter().copied().filter(|&(round, _)| round >= ROUNDS).collect::<Vec<(usize, f64)>>()
        };
        let default = counted(self.default);
        if default.is_empty() {
            // Nobody was left to meet it.
            return self.undecided();
        }
        let default_us = median(default.iter().map(|&(_, us)| us));
        let mut winner = (self.default, default_us, 1.0);
        for at in self.of_status(&[Status::Equal]) {
            let times = counted(at);
            let verdict = decide::compare(&default, &times);
            if at != self.default
                && let Verdict::Faster { ratio } = verdict
                && ratio < winner.2
            {
                winner = (at, median(times.iter().map(|&(_, us)| us)), ratio);
            }
        }
        (winner.0, default_us, winner.1)
    }
}

/// In the order of a round: each round has another, and every run the same.
fn shuffled(candidates: &[usize], round: usize) -> Vec<usize> {
    let mut order = candidates.to_vec();
    let place = |&at: &usize| {
        let seed = [round as u64, at as u64].map(u64::to_le_bytes).concat();
        *blake3::hash(&seed).as_bytes()
    };
    order.sort_by_cached_key(place);
    order
}
