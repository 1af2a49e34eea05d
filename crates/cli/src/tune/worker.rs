//! The process that does a search's device work, so that what hangs or crashes there does not take
//! the search down. It answers requests until nobody asks any more.

use std::io::{BufRead, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rowloom_codegen::{Choice, Subject};
use rowloom_op_adaln::layout::MODALITIES;
use rowloom_op_adaln::{Indices, Layout};
use rowloom_runtime::baseline::{Baseline, Ceilings};
use rowloom_runtime::tuning::{Generate, Machine, Testbed, compile};
use rowloom_runtime::{Device, Stream};

use super::protocol::{Job, Reply, Request, speeds};
use crate::error::{Error, Result};
use crate::report::index;

/// Does a search's work on a device, as it asks over standard input: not for people.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where.
    #[arg(long)]
    device: String,
}

/// Seed of every layout.
const SEED: u64 = 11;

/// How long the work under way may go on when nobody asks any more.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Serves until standard input ends.
pub fn run(args: &Args, generate: Generate) -> Result<()> {
    let requests = requests();
    let device: Device = match args.device.parse() {
        Ok(device) => device,
        Err(error) => return say(&Reply::Failed(rowloom_runtime::Error::to_string(&error))),
    };
    let Some(arch) = device.arch() else {
        return say(&Reply::Failed(rowloom_runtime::Error::NoSchedules.to_string()));
    };
    let driver = Machine::of_device(&device).and_then(|machine| machine.driver);
    say(&Reply::Device { name: device.name(), product: device.product(), arch, driver })?;
    let mut worker = Worker { stream: device.stream().map_err(Error::failed)?, device, generate, open: None };
    for request in requests {
        let reply = worker.answer(request).unwrap_or_else(Reply::Failed);
        say(&reply)?;
    }
    Ok(())
}

/// The lines of standard input. When it ends while something hangs, the process ends too.
fn requests() -> Receiver<Request> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Some(request) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if send.send(request).is_err() {
                return;
            }
        }
        drop(send);
        std::thread::sleep(LAST_WORDS);
        // Ordinary ways to end wait for the device.
        std::process::abort();
    });
    receive
}

fn say(reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_string(reply).map_err(Error::failed)?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).map_err(|_| Error::Closed)
}

struct Worker {
    device: Device,
    stream: Stream,
    generate: Generate,
    open: Option<Open>,
}

/// A job with its data.
struct Open {
    subject: Subject,
    default: Choice,
    testbed: Testbed,
}

impl Worker {
    fn answer(&mut self, request: Request) -> std::result::Result<Reply, String> {
        if let Request::Open(job) = request {
            // What was opened before goes first: both need not fit.
            self.open = None;
            self.open = Some(self.opened(*job)?);
            return Ok(Reply::Done);
        }
        if let Request::Ceiling { bytes } = request {
            self.open = None;
            return Ok(Reply::Ceiling(self.ceiling(bytes).map_err(text)?));
        }
        let Some(Open { subject, default, testbed }) = &mut self.open else {
            return Err("nothing is open".to_owned());
        };
        Ok(match request {
            Request::Open(_) | Request::Ceiling { .. } => unreachable!("answered above"),
            Request::Compile { candidates } => {
                let said = Mutex::new(Ok(()));
                let each = |candidate, compiled: std::result::Result<(), rowloom_runtime::Error>| {
                    let failed = compiled.err().map(text);
                    let mut said = said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if said.is_ok() {
                        *said = say(&Reply::Compiled { candidate, failed });
                    }
                };
                compile(&self.device, subject, &candidates, self.generate, &each).map_err(text)?;
                Reply::Done
            }
            Request::CheckDefault => Reply::Checked { differs: testbed.check_default(default).map_err(text)? },
            Request::Check { candidate } => {
                Reply::Checked { differs: testbed.check(default, &candidate).map_err(text)? }
            }
            Request::Time { candidate } => Reply::Timed { us: testbed.time(&candidate).map_err(text)? },
            Request::Provenance { winner } => {
                let source = (self.generate)(subject, &winner).map_err(|fault| fault.to_string())?;
                let machine = Machine::of_device(&self.device).ok_or("the CPU has no schedules")?;
                Reply::Made(machine.provenance(&source).map_err(text)?)
            }
        })
    }

    fn opened(&self, job: Job) -> std::result::Result<Open, String> {
        let Job { subject, positions, default, indices, layouts } = job;
        let subject = subject.subject()?;
        let layouts: Vec<Layout> = layouts
            .iter()
            .map(|layout| {
                layout.parse().map_err(|unknown: rowloom_op_adaln::layout::UnknownLayout| unknown.to_string())
            })
            .collect::<std::result::Result<_, _>>()?;
        let bound = indices.iter().find(|index| index.name == "timestep").map(|index| index.bound);
        let widest = indices.iter().map(|index| index.bound).max().unwrap_or(1);
        let timesteps = bound.unwrap_or_else(|| widest.div_ceil(MODALITIES));
        let numbers = |packing: usize, number: usize, positions: u64| {
            let drawn: Indices = layouts[packing].indices(positions, timesteps, SEED);
            index(&indices[number].name, &drawn, indices[number].bound)
        };
        let testbed = Testbed::new(&self.stream, &subject, positions, layouts.len(), &numbers, self.generate);
        Ok(Open { testbed: testbed.map_err(text)?, subject, default })
    }

    fn ceiling(&self, bytes: u64) -> std::result::Result<Option<[f64; 3]>, rowloom_runtime::Error> {
        let baseline = Baseline::new(&self.stream);
        let Some(mut ceilings) = Ceilings::new(&baseline, bytes)? else { return Ok(None) };
        ceilings.round(&baseline)?;
        Ok(Some(speeds(ceilings.ceiling())))
    }
}

fn text(error: rowloom_runtime::Error) -> String {
    error.to_string()
}
