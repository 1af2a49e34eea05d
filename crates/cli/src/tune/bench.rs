//! The bench of a search: its candidates run in a worker process, and a fresh one follows each that
//! hangs or crashes.

use std::time::{Duration, Instant};

use rowloom_codegen::Choice;
use rowloom_runtime::tuning::Provenance;
use rowloom_runtime::tuning::search::{Bench, Gate, Time};

use super::protocol::{Job, Reply, Request};
use super::workers::{Answer, OPENING, Workers, unexpected};
use crate::error::{Error, Result};

/// Longest between two compiled candidates.
const COMPILING: Duration = Duration::from_secs(120);

/// A step may take so many times as long as the default's, and at least so long.
const PATIENCE: u32 = 50;
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// The bench of one subject.
pub struct Steps<'w> {
    workers: &'w mut Workers,
    job: Job,
    space: Vec<Choice>,
    default: usize,
    /// Longest that a step may take.
    patience: Duration,
    start: Instant,
}

impl<'w> Steps<'w> {
    /// Of this job, for so long. `default` is a place in `space`.
    pub fn new(workers: &'w mut Workers, job: Job, space: Vec<Choice>, default: usize, budget: Duration) -> Steps<'w> {
        workers.begin(budget);
        Steps { workers, job, space, default, patience: OPENING, start: Instant::now() }
    }

    /// Where a record of this winner is made; nothing where the budget ends before its data is there.
    pub fn provenance(&mut self, winner: Choice) -> Result<Option<Provenance>> {
        match self.workers.ask_twice(&self.job, &Request::Provenance { winner }, OPENING)? {
            Answer::Reply(Reply::Made(provenance)) => Ok(Some(provenance)),
            Answer::Reply(reply) => Err(unexpected(&reply)),
            Answer::Failed { reason, .. } => Err(Error::failed(reason)),
            Answer::Late => Ok(None),
        }
    }

    /// What was found may still be written down.
    pub fn give_grace(&mut self) {
        self.workers.give_grace();
    }

    fn checked(&mut self, candidate: usize, request: &Request) -> Result<Gate> {
        Ok(match self.ask(candidate, request)? {
            Answer::Reply(Reply::Checked { differs: None }) => Gate::Equal,
            Answer::Reply(Reply::Checked { differs: Some(place) }) => Gate::Differs(place),
            Answer::Reply(other) => return Err(unexpected(&other)),
            Answer::Failed { reason, .. } => Gate::Failed(reason),
            Answer::Late => Gate::Late,
        })
    }

    /// Without the default there is no search: it has a second try.
    fn ask(&mut self, candidate: usize, request: &Request) -> Result<Answer> {
        match candidate == self.default {
            true => self.workers.ask_twice(&self.job, request, self.patience),
            false => self.workers.ask(&self.job, request, self.patience),
        }
    }

    /// Compiles these in one worker. Those that it did not tell of when it ended, and why; nothing
    /// where time was up.
    fn compile_together(
        &mut self,
        candidates: &[usize],
        each: &mut dyn FnMut(usize, std::result::Result<(), String>),
    ) -> Result<Option<(Vec<usize>, String)>> {
        let mut left = candidates.to_vec();
        if !matches!(self.workers.open(&self.job)?, Answer::Reply(_)) {
            return Ok(None);
        }
        let candidates = candidates.iter().map(|&at| (at, self.space[at])).collect();
        let (start, time) = (Instant::now(), self.workers.left());
        let patience = || COMPILING.min(time.saturating_sub(start.elapsed()));
        let worker = self.workers.worker()?;
        let mut answer = worker.send(&Request::Compile { candidates }).and_then(|()| worker.reply(patience()));
        while let Ok(Reply::Compiled { candidate, failed }) = answer {
            if left.contains(&candidate) {
                left.retain(|&at| at != candidate);
                each(candidate, failed.map_or(Ok(()), Err));
            }
            answer = worker.reply(patience());
        }
        match self.workers.judged(answer) {
            Answer::Reply(Reply::Done) => Ok(Some((left, "the compiler said nothing of it".to_owned()))),
            Answer::Reply(other) => Err(unexpected(&other)),
            Answer::Failed { reason, .. } => Ok(Some((left, reason))),
            Answer::Late => Ok(None),
        }
    }
}

impl Bench for Steps<'_> {
    type Error = Error;

    fn compile(
        &mut self,
        candidates: &[usize],
        each: &mut dyn FnMut(usize, std::result::Result<(), String>),
    ) -> Result<()> {
        let Some((left, reason)) = self.compile_together(candidates, each)? else { return Ok(()) };
        if let [only] = left[..] {
            each(only, Err(reason));
            return Ok(());
        }
        // A compiler that hangs or crashes does so over one of them: one by one.
        for at in left {
            let Some((left, reason)) = self.compile_together(&[at], each)? else { return Ok(()) };
            if !left.is_empty() {
                each(at, Err(reason));
            }
        }
        Ok(())
    }

    fn gate(&mut self, candidate: usize) -> Result<Gate> {
        let check = Request::Check { candidate: self.space[candidate] };
        if candidate != self.default {
            return self.checked(candidate, &check);
        }
        let of_cpu = self.checked(candidate, &Request::CheckDefault)?;
        if of_cpu != Gate::Equal {
            return Ok(of_cpu);
        }
        // With itself: that it does the same twice, and how long a comparison takes.
        let start = Instant::now();
        let of_itself = self.checked(candidate, &check)?;
        self.patience = (start.elapsed() * PATIENCE).max(LEAST_PATIENCE);
        Ok(of_itself)
    }

    fn time(&mut self, candidate: usize) -> Result<Time> {
        let request = Request::Time { candidate: self.space[candidate] };
        Ok(match self.ask(candidate, &request)? {
            Answer::Reply(Reply::Timed { us }) => Time::Us(us),
            Answer::Reply(other) => return Err(unexpected(&other)),
            Answer::Failed { reason, .. } => Time::Failed(reason),
            Answer::Late => Time::Late,
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
