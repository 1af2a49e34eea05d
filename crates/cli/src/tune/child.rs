//! A worker process and its patience.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rowloom_codegen::Arch;

use super::protocol::{Reply, Request};
use crate::error::{Error, Result, plain};

/// A running worker. Dropped, it is ended.
pub struct Worker {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<Reply>,
    /// Its temporary files, which a process that is killed leaves behind.
    _folder: tempfile::TempDir,
}

/// What a worker works on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `cuda:0`.
    pub name: String,
    /// The product's name.
    pub product: String,
    /// What sources are generated for.
    pub arch: Arch,
    /// Its driver's release; where the system does not tell, the version of CUDA that it supports.
    pub driver: Option<String>,
}

/// Longest start: a driver may have to wake up.
pub const START: Duration = Duration::from_secs(120);

/// Why a worker gave no reply.
#[derive(Clone, Debug)]
pub struct Lost {
    /// In words.
    pub reason: String,
    /// Whether its process ended by itself.
    pub died: bool,
}

impl Lost {
    fn of(reason: impl ToString) -> Lost {
        Lost { reason: reason.to_string(), died: false }
    }
}

/// How long a worker that was not asked for more may take to end, and one that was killed.
const END: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(20);

impl Worker {
    /// Starts this very program as a worker on a device.
    pub fn start(device: &str, patience: Duration) -> Result<(Worker, Machine)> {
        let program = std::env::current_exe()
            .map_err(|error| Error::failed(format!("cannot find the program that is running: {}", plain(&error))))?;
        let folder = tempfile::Builder::new().prefix("rowloom-tune-").tempdir();
        let folder =
            folder.map_err(|error| Error::failed(format!("cannot make a temporary folder: {}", plain(&error))))?;
        let mut process = Command::new(program)
            .args(["tune-worker", "--device", device])
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::failed(format!("cannot start a process for the device: {}", plain(&error))))?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (send, replies) = channel();
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(reply) => {
                        if send.send(reply).is_err() {
                            return;
                        }
                    }
                    // A library that talks to standard output.
                    Err(_) => {
                        let _ = writeln!(std::io::stderr(), "{line}");
                    }
                }
            }
        });
        let mut worker = Worker { process, stdin, replies, _folder: folder };
        match worker.reply(patience) {
            Ok(Reply::Device { name, product, arch, driver }) => Ok((worker, Machine { name, product, arch, driver })),
            Ok(Reply::Failed(reason)) => Err(Error::failed(reason)),
            Ok(other) => Err(Error::failed(format!("the process for {device} began with {other:?}"))),
            Err(Lost { reason, .. }) => Err(Error::failed(format!("the process for {device} did not start: {reason}"))),
        }
    }

    /// Asks. What went wrong, if something did: then this worker is done for.
    pub fn ask(&mut self, request: &Request, patience: Duration) -> std::result::Result<Reply, Lost> {
        self.send(request)?;
        self.reply(patience)
    }

    /// Asks without waiting.
    pub fn send(&mut self, request: &Request) -> std::result::Result<(), Lost> {
        let mut line = serde_json::to_string(request).map_err(Lost::of)?;
        line.push('\n');
        let sent = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(line.as_bytes()).is_ok());
        if sent { Ok(()) } else { Err(self.ended()) }
    }

    /// The next reply.
    pub fn reply(&mut self, patience: Duration) -> std::result::Result<Reply, Lost> {
        match self.replies.recv_timeout(patience) {
            Ok(reply) => Ok(reply),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err(Lost::of(format!("it did not end in {:.1} s and was killed", patience.as_secs_f64())))
            }
        }
    }

    /// How its process ended by itself.
    fn ended(&mut self) -> Lost {
        match self.wait(END) {
            Some(status) => Lost { reason: format!("its process ended: {status}"), died: true },
            None => {
                self.kill();
                Lost::of("its process no longer answers and was killed")
            }
        }
    }

    fn kill(&mut self) {
        // It may have ended meanwhile.
        let _ = self.process.kill();
        if self.wait(KILLED).is_none() {
            let id = self.process.id();
            let _ = writeln!(std::io::stderr(), "warning: process {id} was killed, and has not ended yet");
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stdin = None;
        if self.wait(END).is_none() {
            self.kill();
        }
    }
}
