//! The processes that do a run's device work, one after another, each step within its deadline.

use std::time::{Duration, Instant};

use super::child::{Lost, Machine, START, Worker};
use super::protocol::{Job, Reply, Request};
use crate::error::{Error, Result};

/// Longest that data takes to be made, and that the CPU executor takes.
pub const OPENING: Duration = Duration::from_secs(300);

/// How long what is found may still be written down behind the deadline, and a worker may take to
/// start where the budget is shorter.
const GRACE: Duration = Duration::from_secs(5);
const LEAST_START: Duration = Duration::from_secs(20);

/// What a worker made of a request.
pub enum Answer {
    /// It was done.
    Reply(Reply),
    /// It was not done.
    Failed {
        /// In words.
        reason: String,
        /// Whether its process ended by itself.
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
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The worker that runs, or a fresh one.
    pub fn worker(&mut self) -> Result<&mut Worker> {
        let patience = START.min(self.left());
        Ok(match &mut self.worker {
            Some((worker, _)) => worker,
            none => {
                self.is_open = false;
                &mut none.insert(Worker::start(&self.device, patience)?).0
            }
        })
    }

    /// From now on the work is of another subject, for so long.
    pub fn begin(&mut self, budget: Duration) {
        self.is_open = false;
        self.deadline = after(budget);
    }

    /// What was found may still be written down.
    pub fn give_grace(&mut self) {
        self.deadline = self.deadline.max(Instant::now() + GRACE);
    }

    /// Asks a worker that has this job open, and once more where a process ends by itself over what
    /// must work: the cause may have been the moment's. What hung or failed is done for, and the next
    /// request goes to a fresh one.
    pub fn ask_twice(&mut self, job: &Job, request: &Request, patience: Duration) -> Result<Answer> {
        match self.ask(job, request, patience)? {
            Answer::Failed { died: true, .. } => self.ask(job, request, patience),
            answer @ (Answer::Reply(_) | Answer::Failed { .. } | Answer::Late) => Ok(answer),
        }
    }

    /// Asks a worker that has this job open.
    pub fn ask(&mut self, job: &Job, request: &Request, patience: Duration) -> Result<Answer> {
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

    /// What a worker's answer means, which is done for where it failed.
    pub fn judged(&mut self, answer: std::result::Result<Reply, Lost>) -> Answer {
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
    pub fn open(&mut self, job: &Job) -> Result<Answer> {
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
        self.begin(budget);
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

/// A reply to something else.
pub fn unexpected(reply: &Reply) -> Error {
    Error::failed(format!("the process for the device answered something else: {reply:?}"))
}
