//! What is known of the NVRTC that this process would load, without loading it.
//!
//! Loading takes 8 ms from memory and ten times that from disk, more than all
//! the rest of a start from the cache. So the version and the architectures of a
//! library are kept under what decides which library is found: the environment
//! and the loader's own list. They hold as long as the file has the same size
//! and time of change. At worst they are those of a library that was found here
//! before, and then what is loaded is code that this one has made.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rowloom_codegen::Arch;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::entry::{Entry, Found, Kind};
use super::inventory::Place;
use super::key::Key;
use crate::nvrtc::{self, Compiler, ENVIRONMENT, Nvrtc};

/// What is kept of one NVRTC.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    file: PathBuf,
    stamp: Stamp,
    compiler: Compiler,
}

/// What changes when a file is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stamp {
    bytes: u64,
    modified: SystemTime,
}

impl Stamp {
    fn of(file: &Path) -> Option<Stamp> {
        let metadata = file.metadata().ok()?;
        Some(Stamp { bytes: metadata.len(), modified: metadata.modified().ok()? })
    }
}

/// The NVRTC that this process would load, if it was loaded before and is still the same.
pub(super) fn compiler(disk: &Disk) -> Option<Compiler> {
    let Found::Whole(entry) = disk.read(Place::Compiler, circumstances()) else { return None };
    let known: Known = serde_json::from_slice(&entry.content).ok()?;
    (Stamp::of(&known.file)? == known.stamp).then_some(known.compiler)
}

/// Keeps what a loaded NVRTC is.
pub(super) fn remember(disk: &Disk, nvrtc: &Nvrtc) {
    let Some((file, stamp)) = nvrtc.file().and_then(|file| Some((file.to_owned(), Stamp::of(file)?))) else { return };
    let compiler = nvrtc.compiler().clone();
    let (version, known) = (compiler.version, Known { file, stamp, compiler });
    let Ok(content) = serde_json::to_vec(&known) else { return };
    let entry = Entry {
        kind: Kind::Compiler,
        key: circumstances(),
        arch: Arch(0),
        nvrtc: version,
        name: "NVRTC".to_owned(),
        content,
    };
    disk.store(Place::Compiler, &entry);
}

/// What decides which library is found.
fn circumstances() -> Key {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    field(b"rowloom compiler");
    for name in ENVIRONMENT {
        let value = std::env::var_os(name);
        field(&[u8::from(value.is_some())]);
        field(value.unwrap_or_default().as_encoded_bytes());
    }
    field(nvrtc::python().map_or(&[], |python| python.as_os_str().as_encoded_bytes()));
    let loader = Stamp::of(Path::new("/etc/ld.so.cache"));
    field(&serde_json::to_vec(&loader).unwrap_or_default());
    Key(*hasher.finalize().as_bytes())
}
