//! The bench of a search: its candidates run in a worker process, and a fresh one follows each that
//! hangs or crashes.

use std::time::{Duration, Instant};

use rowloom_codegen::Choice;
use rowloom_runtime::tuning::Provenance;
use rowloom_runtime::tuning::search::{Bench, Gate, Time};

use super::child::{Machine, Worker};
use super::protocol::{Job, Reply, Request};
use crate::error::{Error, Result};

/// Longest that data takes to be made, and that the CPU executor takes.
const OPENING: Duration = Duration::from_secs(300);

/// Longest between two compiled candidates.
const COMPILING: Duration = Duration::from_secs(120);

/// A step may take so many times as long as the default's, and at least so long.
const PATIENCE: u32 = 50;
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// The device's work of a whole run: one worker after another.
pub struct Workers {
    device: String,
    worker: Option<(Worker, Machine)>,
    /// Whether the worker has the data of the current job.
    is_open: bool,
}

impl Workers {
    /// On this device. Starts one.
    pub fn start(device: &str) -> Result<Workers> {
        let worker = Worker::start(device)?;
        Ok(Workers { device: device.to_owned(), worker: Some(worker), is_open: false })
    }

    /// What they work on.
    pub fn machine(&mut self) -> Result<Machine> {
        Ok(self.worker()?.1.clone())
    }

    fn worker(&mut self) -> Result<&mut (Worker, Machine)> {
        if self.worker.is_none() {
            self.is_open = false;
        }
        Ok(match &mut self.worker {
            Some(worker) => worker,
            none => none.insert(Worker::start(&self.device)?),
        })
    }

    /// Asks a worker that has this job open. The inner error is why it was not done; what hung or
    /// failed is done for, and the next request goes to a fresh one.
    fn ask(&mut self, job: &Job, request: &Request, patience: Duration) -> Result<std::result::Result<Reply, String>> {
        self.open(job)?;
        let answer = self.worker()?.0.ask(request, patience);
        Ok(self.judged(answer))
    }

    fn judged(&mut self, answer: std::result::Result<Reply, String>) -> std::result::Result<Reply, String> {
        let reason = match answer {
            Ok(Reply::Failed(reason)) | Err(reason) => reason,
            Ok(reply) => return Ok(reply),
        };
        // After an error of the device nothing that it holds can be relied on.
        self.worker = None;
        Err(reason)
    }

    fn open(&mut self, job: &Job) -> Result<()> {
        self.worker()?;
        if self.is_open {
            return Ok(());
        }
        let answer = self.worker()?.0.ask(&Request::Open(Box::new(job.clone())), OPENING);
        self.judged(answer).map_err(Error::failed)?;
        self.is_open = true;
        Ok(())
    }

    /// How fast memory is.
    pub fn ceiling(&mut self, bytes: u64) -> Result<Option<[f64; 3]>> {
        self.is_open = false;
        let answer = self.worker()?.0.ask(&Request::Ceiling { bytes }, OPENING);
        let reply = self.judged(answer).map_err(Error::failed)?;
        if let Reply::Ceiling(speeds) = reply { Ok(speeds) } else { Err(unexpected(&reply)) }
    }
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
    /// Of this job. `default` is a place in `space`.
    pub fn new(workers: &'w mut Workers, job: Job, space: Vec<Choice>, default: usize) -> Steps<'w> {
        workers.is_open = false;
        Steps { workers, job, space, default, patience: OPENING, start: Instant::now() }
    }

    /// Where a record of this winner is made.
    pub fn provenance(&mut self, winner: Choice) -> Result<Provenance> {
        let reply = self.ask(&Request::Provenance { winner }, OPENING)?.map_err(Error::failed)?;
        if let Reply::Made(provenance) = reply { Ok(provenance) } else { Err(unexpected(&reply)) }
    }

    fn ask(&mut self, request: &Request, patience: Duration) -> Result<std::result::Result<Reply, String>> {
        self.workers.ask(&self.job, request, patience)
    }

    fn checked(&mut self, request: &Request) -> Result<Gate> {
        Ok(match self.ask(request, self.patience)? {
            Ok(Reply::Checked { differs: None }) => Gate::Equal,
            Ok(Reply::Checked { differs: Some(place) }) => Gate::Differs(place),
            Ok(other) => return Err(unexpected(&other)),
            Err(reason) => Gate::Failed(reason),
        })
    }

    /// Compiles these in one worker. Those that it did not tell of when it ended.
    fn compile_together(
        &mut self,
        candidates: &[usize],
        each: &mut dyn FnMut(usize, std::result::Result<(), String>),
    ) -> Result<(Vec<usize>, String)> {
        let mut left = candidates.to_vec();
        self.workers.open(&self.job)?;
        let candidates = candidates.iter().map(|&at| (at, self.space[at])).collect();
        let worker = &mut self.workers.worker()?.0;
        let mut answer = worker.send(&Request::Compile { candidates }).and_then(|()| worker.reply(COMPILING));
        while let Ok(Reply::Compiled { candidate, failed }) = answer {
            if left.contains(&candidate) {
                left.retain(|&at| at != candidate);
                each(candidate, failed.map_or(Ok(()), Err));
            }
            answer = worker.reply(COMPILING);
        }
        match self.workers.judged(answer) {
            Ok(Reply::Done) => Ok((left, "the compiler said nothing of it".to_owned())),
            Ok(other) => Err(unexpected(&other)),
            Err(reason) => Ok((left, reason)),
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
        let (left, reason) = self.compile_together(candidates, each)?;
        if let [only] = left[..] {
            each(only, Err(reason));
            return Ok(());
        }
        // A compiler that hangs or crashes does so over one of them: one by one.
        for at in left {
            let (left, reason) = self.compile_together(&[at], each)?;
            if !left.is_empty() {
                each(at, Err(reason));
            }
        }
        Ok(())
    }

    fn gate(&mut self, candidate: usize) -> Result<Gate> {
        let check = Request::Check { candidate: self.space[candidate] };
        if candidate != self.default {
            return self.checked(&check);
        }
        let of_cpu = self.checked(&Request::CheckDefault)?;
        if of_cpu != Gate::Equal {
            return Ok(of_cpu);
        }
        // With itself: that it does the same twice, and how long a comparison takes.
        let start = Instant::now();
        let of_itself = self.checked(&check)?;
        self.patience = (start.elapsed() * PATIENCE).max(LEAST_PATIENCE);
        Ok(of_itself)
    }

    fn time(&mut self, candidate: usize) -> Result<Time> {
        let request = Request::Time { candidate: self.space[candidate] };
        Ok(match self.ask(&request, self.patience)? {
            Ok(Reply::Timed { us }) => Time::Us(us),
            Ok(other) => return Err(unexpected(&other)),
            Err(reason) => Time::Failed(reason),
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::failed(format!("the process for the device answered something else: {reply:?}"))
}
