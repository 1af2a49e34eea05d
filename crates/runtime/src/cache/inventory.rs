//! What lies in a cache folder: totals, a check of every entry, and an end to all of it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::disk::Disk;
use super::entry::Entry;
use crate::files::{UNFINISHED, is_absent};
use crate::tuning::journal;

/// The parts of a cache folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Entries of code.
    Code,
    /// Entries of what is known of a compiler.
    Compiler,
    /// Locks.
    Lock,
    /// What searches for schedules have learnt that were interrupted.
    Search,
}

impl Place {
    const ALL: [Place; 4] = [Place::Code, Place::Compiler, Place::Lock, Place::Search];

    pub(super) fn folder(self) -> &'static str {
        match self {
            Place::Code => "code",
            Place::Compiler => "compilers",
            Place::Lock => "locks",
            Place::Search => journal::PART,
        }
    }

    pub(super) fn extension(self) -> &'static str {
        match self {
            Place::Code => "code",
            Place::Compiler => "compiler",
            Place::Lock => "lock",
            Place::Search => journal::EXTENSION,
        }
    }
}

/// A file of a cache folder.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    /// What it is; `None` for a temporary file.
    pub(super) place: Option<Place>,
    pub(super) bytes: u64,
    /// When it was last used.
    pub(super) used: SystemTime,
}

impl Listed {
    /// Every file of ours, none where nothing was stored yet. Whatever else lies in the
    /// folder is not touched.
    pub(super) fn all(folder: &Path) -> io::Result<Vec<Listed>> {
        let mut files = Vec::new();
        if !is_folder(folder)? {
            return Ok(files);
        }
        for place in Place::ALL {
            let part = folder.join(place.folder());
            if !is_folder(&part)? {
                continue;
            }
            for entry in std::fs::read_dir(part)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let ours = path.extension().is_some_and(|extension| extension == place.extension());
                let temporary = name.starts_with(UNFINISHED);
                // Not there any more, or a folder that somebody has put there.
                let Ok(metadata) = path.symlink_metadata() else { continue };
                if metadata.is_dir() || !(ours || temporary) {
                    continue;
                }
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let place = ours.then_some(place);
                files.push(Listed { path, place, bytes: metadata.len(), used });
            }
        }
        Ok(files)
    }
}

/// Whether a folder is there; an error that says what it is when it is something else.
fn is_folder(path: &Path) -> io::Result<bool> {
    let what = match path.metadata() {
        Ok(there) if there.is_dir() => return Ok(true),
        Ok(there) if there.is_file() => "a file",
        Ok(_) => "a device, a pipe or a socket",
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is {what}, and no folder", path.display())))
}

/// What a cache folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Pieces of code.
    pub entries: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Files of processes that were killed: temporary files and locks.
    pub leftovers: u64,
    /// Searches for schedules that were interrupted or are under way.
    pub searches: u64,
    /// Pieces of code and bytes by architecture and NVRTC version, such as `sm_90, NVRTC 13.5`.
    pub by_target: BTreeMap<String, Share>,
    /// Seconds since the entry used least recently was used.
    pub oldest_use_s: Option<u64>,
}

/// A part of what a cache folder holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Pieces of code.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A file that is no whole entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Where it lies.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Disk {
    /// What it holds, by the headers of its entries.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn usage(&self) -> io::Result<Usage> {
        let mut usage = Usage::default();
        let now = SystemTime::now();
        for file in Listed::all(self.folder())? {
            match file.place {
                Some(Place::Code) => {}
                Some(Place::Compiler) => continue,
                Some(Place::Search) => {
                    usage.searches += 1;
                    continue;
                }
                Some(Place::Lock) | None => {
                    usage.leftovers += 1;
                    continue;
                }
            }
            usage.entries += 1;
            usage.bytes += file.bytes;
            let target = match Entry::glance(&file.path) {
                Ok(Ok(header)) => format!("{}, NVRTC {}.{}", header.arch, header.nvrtc.0, header.nvrtc.1),
                Ok(Err(_)) | Err(_) => "damaged".to_owned(),
            };
            let share = usage.by_target.entry(target).or_default();
            share.entries += 1;
            share.bytes += file.bytes;
            let age = now.duration_since(file.used).map_or(0, |age| age.as_secs());
            usage.oldest_use_s = usage.oldest_use_s.max(Some(age));
        }
        Ok(usage)
    }

    /// Checks every byte of every entry. Gives the number of whole ones, and the others.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn verify(&self) -> io::Result<(u64, Vec<Damage>)> {
        let (mut whole, mut damaged) = (0, Vec::new());
        for file in Listed::all(self.folder())? {
            let place = match file.place {
                Some(place @ (Place::Code | Place::Compiler)) => place,
                Some(Place::Lock | Place::Search) | None => continue,
            };
            let reason = match Entry::read_any(&file.path) {
                Ok(Ok(entry)) if self.path(place, entry.key) == file.path => {
                    whole += 1;
                    continue;
                }
                Ok(Ok(_)) => "it is the entry of another key".to_owned(),
                Ok(Err(reason)) => reason.to_owned(),
                Err(error) if is_absent(&error) => continue,
                Err(error) => error.to_string(),
            };
            damaged.push(Damage { path: file.path, reason });
        }
        damaged.sort_by(|left, right| left.path.cmp(&right.path));
        Ok((whole, damaged))
    }

    /// Removes every file of ours, and the folder itself if nothing else is in it.
    /// Gives the number of files and their bytes.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn clear(&self) -> io::Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for file in Listed::all(self.folder())? {
            match std::fs::remove_file(&file.path) {
                Err(error) if is_absent(&error) => continue,
                other => other?,
            }
            files += 1;
            bytes += file.bytes;
        }
        for place in Place::ALL {
            let _ = std::fs::remove_dir(self.folder().join(place.folder()));
        }
        let _ = std::fs::remove_dir(self.folder());
        Ok((files, bytes))
    }
}
