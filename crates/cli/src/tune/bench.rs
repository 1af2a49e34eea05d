//! The bench of a search: its candidates run in a worker process, and a fresh one follows each that
//! hangs or crashes.

use std::time::{Duration, Instant};

use rowloom_codegen::Choice;
use rowloom_runtime::tuning::Provenance;
use rowloom_runtime::tuning::search::{Bench, Gate, Time};

use super::child::{Lost, Machine, START, Worker};
use super::protocol::{Job, Reply, Request};
use crate::error::{Error, Result};

/// Longest that data takes to be made, and that the CPU executor takes.
const OPENING: Duration = Duration::from_secs(300);

/// Longest between two compiled candidates.
const COMPILING: Duration = Duration::from_secs(120);

/// A step may take so many times as long as the default's, and at least so long.
const PATIENCE: u32 = 50;
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// How long what is found may still be written down behind the deadline, and a worker may take to
/// start where the budget is shorter.
const GRACE: Duration = Duration::from_secs(5);
const LEAST_START: Duration = Duration::from_secs(20);

/// What a worker made of a request.
enum Answer {
    Reply(Reply),
    /// Why it was not done. `died` where its process ended by itself.
    Failed {
        reason: String,
        died: bool,
    },
    /// Time was up before its end.
    Late,
}

/// The device's work of a whole run: one worker after another.
pub struct Workers {
    device: String,
    worker: Option<(Worker, Machine)>,
    /// Whether the worker has the data of the current job.
    is_open: bool,
    /// When the work under way is given up.
    deadline: Instant,
}

impl Workers {
    /// On this device, for a run of `budget`. Starts one.
    pub fn start(device: &str, budget: Duration) -> Result<Workers> {
        let worker = Worker::start(device, START.min(budget.max(LEAST_START)))?;
        let deadline = after(budget);
        Ok(Workers { device: device.to_owned(), worker: Some(worker), is_open: false, deadline })
    }

    /// What they work on.
    pub fn machine(&mut self) -> Result<Machine> {
        match &self.worker {
            Some((_, machine)) => Ok(machine.clone()),
            None => Err(Error::failed("no process for the device is left")),
        }
    }

    /// What is left until the deadline.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The worker that runs, or a fresh one.
    fn worker(&mut self) -> Result<&mut Worker> {
        let patience = START.min(self.left());
        Ok(match &mut self.worker {
            Some((worker, _)) => worker,
            none => {
                self.is_open = false;
                &mut none.insert(Worker::start(&self.device, patience)?).0
            }
        })
    }

    /// Asks a worker that has this job open, and once more where a process ends by itself over what
    /// must work: the cause may have been the moment's. What hung or failed is done for, and the next
    /// request goes to a fresh one.
    fn ask_twice(&mut self, job: &Job, request: &Request, patience: Duration) -> Result<Answer> {
        match self.ask(job, request, patience)? {
            Answer::Failed { died: true, .. } => self.ask(job, request, patience),
            answer @ (Answer::Reply(_) | Answer::Failed { .. } | Answer::Late) => Ok(answer),
        }
    }

    fn ask(&mut self, job: &Job, request: &Request, patience: Duration) -> Result<Answer> {
        match self.open(job)? {
            Answer::Reply(_) => self.ask_only(request, patience),
            other @ (Answer::Failed { .. } | Answer::Late) => Ok(other),
        }
    }

    fn ask_only(&mut self, request: &Request, patience: Duration) -> Result<Answer> {
        let patience = patience.min(self.left());
        if patience.is_zero() {
            return Ok(Answer::Late);
        }
        let deadline = self.deadline;
        let answer = match self.worker() {
            Ok(worker) => worker.ask(request, patience),
            // It had no time to start.
            Err(_) if Instant::now() >= deadline => return Ok(Answer::Late),
            Err(error) => return Err(error),
        };
        Ok(self.judged(answer))
    }

    fn judged(&mut self, answer: std::result::Result<Reply, Lost>) -> Answer {
        let (reason, died) = match answer {
            Ok(Reply::Failed(reason)) => (reason, false),
            Err(Lost { reason, died }) => (reason, died),
            Ok(reply) => return Answer::Reply(reply),
        };
        // After an error of the device nothing that it holds can be relied on.
        self.worker = None;
        if self.left().is_zero() { Answer::Late } else { Answer::Failed { reason, died } }
    }

    /// Makes the data of a job, where no worker has it.
    fn open(&mut self, job: &Job) -> Result<Answer> {
        if self.worker.is_some() && self.is_open {
            return Ok(Answer::Reply(Reply::Done));
        }
        let request = Request::Open(Box::new(job.clone()));
        let mut answer = self.ask_only(&request, OPENING)?;
        if matches!(answer, Answer::Failed { died: true, .. }) {
            answer = self.ask_only(&request, OPENING)?;
        }
        if let Answer::Failed { reason, .. } = answer {
            // No candidate is at fault.
            return Err(Error::failed(reason));
        }
        self.is_open = matches!(answer, Answer::Reply(_));
        Ok(answer)
    }

    /// How fast memory is; nothing where there was no time to tell, and in emulation.
    pub fn ceiling(&mut self, bytes: u64, budget: Duration) -> Result<Option<[f64; 3]>> {
        self.is_open = false;
        self.deadline = after(budget);
        match self.ask_only(&Request::Ceiling { bytes }, OPENING)? {
            Answer::Reply(Reply::Ceiling(speeds)) => Ok(speeds),
            Answer::Reply(reply) => Err(unexpected(&reply)),
            Answer::Failed { reason, .. } => Err(Error::failed(reason)),
            Answer::Late => Ok(None),
        }
    }
}

/// So much later than now; a time that no clock has is a day.
fn after(budget: Duration) -> Instant {
    let day = Duration::from_secs(86400);
    Instant::now().checked_add(budget).unwrap_or_else(|| Instant::now() + day)
}

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
        workers.is_open = false;
        workers.deadline = after(budget);
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
        self.workers.deadline = self.workers.deadline.max(Instant::now() + GRACE);
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
        let deadline = self.workers.deadline;
        let patience = || COMPILING.min(deadline.saturating_duration_since(Instant::now()));
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

fn unexpected(reply: &Reply) -> Error {
    Error::failed(format!("the process for the device answered something else: {reply:?}"))
}
