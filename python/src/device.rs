//! The devices that arrays live on, and the streams of their frameworks.

use std::sync::{Mutex, OnceLock, PoisonError};

use rowloom::{Device, Error, Stream, Tiling};

use crate::borrowed;
use crate::place::Place;

/// GPUs by number, each looked up once.
static GPUS: Mutex<Vec<Option<&'static Device>>> = Mutex::new(Vec::new());

/// Streams that deferred calls ran on: what those found is theirs, and goes with the last who holds them. They stay,
/// since another thread may make such a call while one waits; frameworks have few streams.
static DEFERRED: Mutex<Vec<(u32, u64, Stream)>> = Mutex::new(Vec::new());

impl Place {
    /// Its device, which is never closed.
    pub(crate) fn device(self) -> Result<&'static Device, Error> {
        static CPU: OnceLock<Device> = OnceLock::new();
        let ordinal = match self {
            Place::Cpu => return Ok(CPU.get_or_init(Device::cpu)),
            Place::Cuda(ordinal) => ordinal,
        };
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(device)) = gpus.get(ordinal as usize) {
            return Ok(device);
        }
        let device: &'static Device = Box::leak(Box::new(Device::cuda(ordinal)?));
        // The driver has such a GPU, so the list stays short.
        if gpus.len() <= ordinal as usize {
            gpus.resize(ordinal as usize + 1, None);
        }
        gpus[ordinal as usize] = Some(device);
        Ok(device)
    }

    /// The framework's stream; the CPU has one.
    pub(crate) fn stream(self, raw: u64) -> Result<Stream, Error> {
        static CPU: OnceLock<Stream> = OnceLock::new();
        match self {
            Place::Cpu => Ok(CPU.get_or_init(|| Stream::cpu(Tiling::default())).clone()),
            Place::Cuda(_) => borrowed::stream(self.device()?, raw),
        }
    }

    /// Keeps what a deferred call on a stream finds until somebody asks.
    pub(crate) fn keep(self, raw: u64, stream: &Stream) {
        let Place::Cuda(ordinal) = self else { return };
        let mut deferred = DEFERRED.lock().unwrap_or_else(PoisonError::into_inner);
        if !deferred.iter().any(|&(device, number, _)| (device, number) == (ordinal, raw)) {
            deferred.push((ordinal, raw, stream.clone()));
        }
    }

    /// Waits for a stream, and for what deferred calls on it have found.
    pub(crate) fn synchronize(self, raw: u64) -> Result<(), Error> {
        self.stream(raw)?.synchronize()
    }
}
