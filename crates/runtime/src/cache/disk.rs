//! The cache on disk: one file an entry in `code/`, a file a lock in `locks/`,
//! and in `compilers/` what is known of each NVRTC.
//!
//! It never turns a launch that works into one that fails: whatever is wrong
//! with the folder, code is compiled, and one line on standard error says so.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Found};
use super::inventory::{Listed, Place};
use super::key::Key;
use crate::files::lock::{self, Held, Outcome};
use crate::files::{UNFINISHED, create, is_absent};
use crate::notice;

/// Writes all bytes of an entry. Another one than the usual lets tests fill a disk.
pub type Writer = fn(&mut File, &[u8]) -> io::Result<()>;

/// A cache folder. Nothing is created before something is stored.
pub struct Disk {
    folder: PathBuf,
    /// Most bytes of all entries.
    limit: u64,
    lock_timeout: Duration,
    writer: Writer,
    /// Whether a holder of a lock is still waited for: not after it has once been in vain.
    patient: AtomicBool,
    /// Bytes to store until sizes are added up again.
    unmeasured: AtomicU64,
}

/// A folder is measured whenever this share of its limit was stored.
const MEASURED_EVERY: u64 = 16;

/// Leftovers of this age are nobody's work any more.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Disk {
    /// The cache in `folder`, of at most `limit` bytes.
    pub fn new(folder: impl Into<PathBuf>, limit: u64, lock_timeout: Duration) -> Disk {
        Disk {
            folder: folder.into(),
            limit,
            lock_timeout,
            writer: |file, bytes| file.write_all(bytes),
            patient: AtomicBool::new(true),
            unmeasured: AtomicU64::new(0),
        }
    }

    /// The same, written by `writer`.
    #[doc(hidden)]
    pub fn with_writer(self, writer: Writer) -> Disk {
        Disk { writer, ..self }
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Most bytes of all entries.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn path(&self, place: Place, key: Key) -> PathBuf {
        self.folder.join(place.folder()).join(format!("{key}.{}", place.extension()))
    }

    /// The entry of this key, and marks it as used now.
    pub(super) fn read(&self, place: Place, key: Key) -> Found {
        let path = self.path(place, key);
        let found = Entry::read(&path, key).unwrap_or_else(|error| {
            let folder = self.folder.display();
            notice::once("unreadable", &format!("cannot read the cache in {folder}: {error}; kernels are compiled"));
            Found::Nothing
        });
        if matches!(found, Found::Whole(_)) {
            // Without the right to write, the order of eviction is that of making.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        found
    }

    /// Stores an entry in place of whatever lies there. Gives the bytes written, none where it could not.
    pub(super) fn store(&self, place: Place, entry: &Entry) -> Option<u64> {
        let bytes = entry.encode();
        if bytes.len() as u64 > self.limit {
            return None;
        }
        match self.replace(&self.path(place, entry.key), &bytes) {
            Ok(()) => Some(bytes.len() as u64),
            Err(error) => {
                let folder = self.folder.display();
                notice::once(
                    "unwritable",
                    &format!("cannot write the cache in {folder}: {error}; every process compiles its kernels anew"),
                );
                None
            }
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        create(folder)?;
        // In the same folder, so that renaming it is one step. Dropped, it is removed.
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
        (self.writer)(file.as_file_mut(), bytes)?;
        file.persist(path)?;
        Ok(())
    }

    /// The lock of a key, if it can be had; and whether waiting for it was in vain.
    pub(super) fn lock(&self, key: Key) -> (Option<Held>, bool) {
        let path = self.path(Place::Lock, key);
        if create(path.parent().unwrap_or(&self.folder)).is_err() {
            return (None, false);
        }
        let patient = self.patient.load(Ordering::Relaxed);
        match lock::lock(&path, if patient { self.lock_timeout } else { Duration::ZERO }) {
            Outcome::Held(held) => (Some(held), false),
            Outcome::None(_) => (None, false),
            Outcome::TimedOut => {
                self.patient.store(false, Ordering::Relaxed);
                (None, true)
            }
        }
    }

    /// Removes what was used least recently until the rest is within the limit,
    /// if enough was stored since it was last measured. Gives the entries removed.
    pub(super) fn bound(&self, stored: u64) -> u64 {
        let left = self.unmeasured.load(Ordering::Relaxed);
        if stored < left {
            self.unmeasured.store(left - stored, Ordering::Relaxed);
            return 0;
        }
        self.unmeasured.store(self.limit / MEASURED_EVERY, Ordering::Relaxed);
        let Ok(listed) = Listed::all(&self.folder) else { return 0 };
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for file in listed {
            match file.place {
                Some(Place::Code) => {
                    bytes += file.bytes;
                    entries.push(file);
                }
                Some(Place::Compiler | Place::Search) => {}
                // A temporary file, or a lock, of a process that was killed.
                Some(Place::Lock) | None => {
                    if now.duration_since(file.used).is_ok_and(|age| age > ABANDONED) {
                        let _ = std::fs::remove_file(&file.path);
                    }
                }
            }
        }
        entries.sort_by_key(|file| file.used);
        let mut removed = 0;
        for file in entries {
            if bytes <= self.limit {
                break;
            }
            bytes -= file.bytes;
            match std::fs::remove_file(&file.path) {
                Ok(()) => removed += 1,
                // Another process was faster.
                Err(error) if is_absent(&error) => {}
                Err(_) => break,
            }
        }
        removed
    }
}
