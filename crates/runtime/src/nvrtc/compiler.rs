//! What an NVRTC is and how it is called, apart from having it in memory.

use std::fmt;

use rowloom_codegen::{Arch, Source};
use serde::{Deserialize, Serialize};

use super::ImageFormat;
use crate::error::Error;

/// An NVRTC by what decides the code it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compiler {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Size of its library, which tells the releases of one version apart; 0 where unknown.
    pub library_bytes: u64,
    /// The architectures it knows, ascending.
    pub architectures: Vec<Arch>,
}

/// How a source is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Every option, in order.
    pub(crate) options: Vec<String>,
    /// What comes out.
    pub(crate) format: ImageFormat,
}

/// Options besides the source's own.
const OPTIONS: [&str; 1] = ["--std=c++17"];

/// The first version that caches on disk unless told not to: a cached compilation has no log.
const CACHES_SINCE: (u32, u32) = (13, 0);

impl Compiler {
    /// How machine code for an architecture is made: a cubin where it is known,
    /// else PTX of the newest below.
    ///
    /// # Errors
    /// [`Error::Nvrtc`] when it knows none that is old enough.
    pub(crate) fn invocation(&self, arch: Arch) -> Result<Invocation, Error> {
        match self.architectures.iter().rev().find(|known| **known <= arch) {
            Some(known) if *known == arch => Ok(self.options(&format!("sm_{}", arch.0), ImageFormat::Cubin)),
            Some(known) => Ok(self.options(&format!("compute_{}", known.0), ImageFormat::Ptx)),
            None => {
                let message = format!("NVRTC {self} makes no code for {arch}");
                Err(Error::Nvrtc { call: "nvrtcGetSupportedArchs", message })
            }
        }
    }

    /// How `format` for a target is made.
    pub(crate) fn options(&self, target: &str, format: ImageFormat) -> Invocation {
        let mut options = options_of_every_version(target);
        if self.version >= CACHES_SINCE {
            options.push("--no-cache".to_owned());
        }
        Invocation { options, format }
    }
}

/// What every version is asked for: all that decides what the code means.
pub(crate) fn options_of_every_version(target: &str) -> Vec<String> {
    let own = Source::OPTIONS.iter().chain(&OPTIONS).map(ToString::to_string);
    [format!("--gpu-architecture={target}")].into_iter().chain(own).collect()
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version.0, self.version.1)
    }
}
