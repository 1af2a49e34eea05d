//! A pack: code made ahead of time, in a folder that is only read.
//!
//! `manifest.json` says what is in it and which NVRTC made it; the code lies
//! beside it, one file an entry, in the same format as the cache's. Keys leave
//! the compiler out, so that whoever has a pack needs none.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowloom_codegen::{Arch, Source};
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Found, Kind};
use super::inventory::Damage;
use super::key::{Key, Request};
use crate::error::Error;
use crate::files::lock::{self, Outcome};
use crate::files::{UNFINISHED, place, remove_unfinished};
use crate::nvrtc::{ImageFormat, Nvrtc};

/// Version of the manifest.
const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";

/// One writer at a time: each reads what the others have added.
const LOCK: &str = "manifest.lock";

/// Longest wait for another writer, which compiles nothing meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// What is in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this file.
    format: u32,
    /// Each piece of code.
    pub code: Vec<Packed>,
}

impl Manifest {
    /// The one in this folder, or why there is none.
    fn read(folder: &Path) -> Result<Manifest, String> {
        let path = folder.join(MANIFEST);
        let failed = |error: &dyn std::fmt::Display| format!("{MANIFEST}: {error}");
        // Opening a pipe would wait for its writer.
        if !path.metadata().map_err(|error| failed(&error))?.is_file() {
            return Err(format!("{MANIFEST} is no regular file"));
        }
        let text = std::fs::read(path).map_err(|error| failed(&error))?;
        // The version first: a later one may have other fields.
        let version: serde_json::Value = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        if version["format"] != FORMAT {
            return Err(format!("its format is {}, and this rowloom reads {FORMAT}", version["format"]));
        }
        serde_json::from_value(version).map_err(|error| failed(&error))
    }

    /// The one to add to: none yet in a folder that is not there, is empty, or
    /// holds no more than what a writer that was killed has left. Else why not.
    fn to_extend(folder: &Path) -> Result<Manifest, String> {
        let files = match std::fs::read_dir(folder) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Manifest::default()),
            Err(error) => return Err(error.to_string()),
        };
        let mut foreign = None;
        for file in files {
            let name = file.map_err(|error| error.to_string())?.file_name();
            let name = name.to_string_lossy();
            if name == MANIFEST {
                return Manifest::read(folder);
            }
            if !is_left_over(&name) {
                foreign = Some(name.into_owned());
            }
        }
        match foreign {
            Some(name) => Err(format!("it holds something else, {name}; name a new folder, an empty one or a pack")),
            None => Ok(Manifest::default()),
        }
    }
}

impl Default for Manifest {
    fn default() -> Manifest {
        Manifest { format: FORMAT, code: Vec::new() }
    }
}

/// Whether a writer without a manifest leaves a file of this name.
fn is_left_over(name: &str) -> bool {
    let is_code = name.strip_suffix(".code").is_some_and(|key| key.parse::<Key>().is_ok());
    is_code || name == LOCK || name.starts_with(UNFINISHED)
}

/// A piece of code in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    /// Its key, which is its file's name.
    pub key: String,
    /// Name of the source.
    pub source: String,
    /// Hash of its text.
    pub source_hash: String,
    /// Sizes and types it is for.
    pub sizes: String,
    /// Architecture, such as `sm_90`.
    pub arch: String,
    /// Version of the NVRTC that made it.
    pub nvrtc: String,
    /// Bytes of the machine code.
    pub bytes: u64,
}

/// A pack that is there.
#[derive(Debug)]
pub struct Pack {
    folder: PathBuf,
    manifest: Manifest,
}

impl Pack {
    /// The pack in a folder.
    ///
    /// # Errors
    /// [`Error::Pack`] when there is none, or one of another version.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Pack, Error> {
        let folder = folder.into();
        match Manifest::read(&folder) {
            Ok(manifest) => Ok(Pack { folder, manifest }),
            Err(problem) => Err(Error::Pack { folder, problem }),
        }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is in it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks every byte of every entry. Gives the number of whole ones, and the others.
    pub fn verify(&self) -> (u64, Vec<Damage>) {
        let (mut whole, mut damaged) = (0, Vec::new());
        for packed in &self.manifest.code {
            let path = path(&self.folder, &packed.key);
            let found = match packed.key.parse() {
                Ok(key) => Entry::read(&path, key),
                Err(_) => Ok(Found::Damaged("its key in the manifest is none")),
            };
            let reason = match found {
                Ok(Found::Whole(_)) => {
                    whole += 1;
                    continue;
                }
                Ok(Found::Damaged(reason)) => reason.to_owned(),
                Ok(Found::Nothing) => "there is no such file".to_owned(),
                Err(error) => error.to_string(),
            };
            damaged.push(Damage { path, reason });
        }
        (whole, damaged)
    }

    pub(super) fn read(&self, key: Key) -> io::Result<Found> {
        Entry::read(&path(&self.folder, &key.to_string()), key)
    }
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.code"))
}

/// The key that a source has in every pack.
pub fn pack_key(source: &Source, arch: Arch) -> Key {
    Request::new(source, arch).pack_key()
}

/// Code for a pack, compiled and not yet written.
#[derive(Debug)]
pub struct PackCode {
    entry: Entry,
    source_hash: String,
    sizes: String,
}

impl PackCode {
    /// Compiles a source into a cubin. `sizes` says what it is for.
    ///
    /// # Errors
    /// [`Error::Nvrtc`] for an architecture that NVRTC does not know; [`Error::Compile`].
    pub fn compile(nvrtc: &Nvrtc, source: &Source, arch: Arch, sizes: String) -> Result<PackCode, Error> {
        let request = Request::new(source, arch);
        let invocation = nvrtc.compiler().invocation(arch)?;
        if invocation.format != ImageFormat::Cubin {
            let message = format!(
                "NVRTC {} makes no machine code for {arch}; point ROWLOOM_NVRTC at a newer one",
                nvrtc.compiler()
            );
            return Err(Error::Nvrtc { call: "nvrtcGetSupportedArchs", message });
        }
        let content = nvrtc.invoke(&request.name, &request.text, &invocation)?.image;
        let key = request.pack_key();
        let source_hash = blake3::hash(request.text.as_bytes()).to_string();
        let entry = Entry { kind: Kind::Cubin, key, arch, nvrtc: nvrtc.version(), name: request.name, content };
        Ok(PackCode { entry, source_hash, sizes })
    }

    /// Bytes of the machine code.
    pub fn bytes(&self) -> u64 {
        self.entry.content.len() as u64
    }

    fn packed(&self) -> Packed {
        let Entry { key, arch, nvrtc: (major, minor), name, content, .. } = &self.entry;
        Packed {
            key: key.to_string(),
            source: name.clone(),
            source_hash: self.source_hash.clone(),
            sizes: self.sizes.clone(),
            arch: arch.to_string(),
            nvrtc: format!("{major}.{minor}"),
            bytes: content.len() as u64,
        }
    }
}

/// A folder that is, or can become, a pack.
#[derive(Debug)]
pub struct PackWriter {
    folder: PathBuf,
}

impl PackWriter {
    /// For a new pack, or for one that is there already, which keeps what it has.
    /// What a writer that was killed has left is written anew. Writes nothing yet.
    ///
    /// # Errors
    /// [`Error::PackWrite`] when the folder holds something else or cannot be read.
    pub fn open(folder: impl Into<PathBuf>) -> Result<PackWriter, Error> {
        let folder = folder.into();
        match Manifest::to_extend(&folder) {
            Ok(_) => Ok(PackWriter { folder }),
            Err(problem) => Err(Error::PackWrite { folder, problem }),
        }
    }

    /// Writes code, and then the manifest, which names only what was read back whole.
    /// Writers of one folder take turns, and none loses what another has added.
    ///
    /// # Errors
    /// [`Error::PackWrite`] when the folder cannot be locked or written, or does not give
    /// back what was written.
    pub fn write(self, code: &[PackCode]) -> Result<Pack, Error> {
        let PackWriter { folder } = self;
        let refused = |problem: String| Error::PackWrite { folder: folder.clone(), problem };
        let failed = |doing: &str, error: io::Error| refused(format!("{doing}: {error}"));
        std::fs::create_dir_all(&folder).map_err(|error| failed("making it", error))?;
        let _held = match lock::lock(&folder.join(LOCK), LOCK_TIMEOUT) {
            Outcome::Held(held) => held,
            Outcome::None(error) => return Err(failed("locking it", error)),
            Outcome::TimedOut => {
                let seconds = LOCK_TIMEOUT.as_secs();
                return Err(refused(format!("another process has been writing it for {seconds} seconds; try again")));
            }
        };
        let mut manifest = Manifest::to_extend(&folder).map_err(refused)?;
        remove_unfinished(&folder).map_err(|error| failed("removing what was left unfinished", error))?;
        for code in code {
            let packed = code.packed();
            let path = path(&folder, &packed.key);
            place(&folder, &path, &code.entry.encode()).map_err(|error| failed("writing code", error))?;
            match Entry::read(&path, code.entry.key) {
                Ok(Found::Whole(entry)) if entry == code.entry => {}
                Ok(_) => return Err(refused(format!("{} did not come back as it was written", path.display()))),
                Err(error) => return Err(failed("reading code back", error)),
            }
            manifest.code.retain(|known| known.key != packed.key);
            manifest.code.push(packed);
        }
        manifest.code.sort_by(|left, right| {
            let order = |packed: &Packed| (packed.source.clone(), packed.sizes.clone(), packed.arch.clone());
            order(left).cmp(&order(right))
        });
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| refused(error.to_string()))? + "\n";
        place(&folder, &folder.join(MANIFEST), text.as_bytes())
            .map_err(|error| failed("writing its manifest", error))?;
        Ok(Pack { folder, manifest })
    }
}
