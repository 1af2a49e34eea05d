//! Where records lie: a pack's `tuning/`, then that of the user's cache folder.
//!
//! Nothing that is wrong with a file of records makes a launch fail: it is done
//! without, and one line on standard error says so. A file is read once a process,
//! when the first call that it may be for is prepared.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rowloom_codegen::{Accumulate, Subject};

use super::sheet::{Of, Sheet};
use super::{For, Machine, Record, Refusal, command};
use crate::cache::{Damage, Settings};
use crate::error::Error;
use crate::files::lock::{self, Outcome};
use crate::files::{self, place, remove_unfinished};
use crate::notice;
use crate::once::Once;

/// Of records in a pack or cache folder.
const PART: &str = "tuning";

/// One writer of a folder at a time: each reads what the others have added.
const LOCK: &str = "records.lock";

/// Longest wait for another writer, which only writes meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The records that a process may use.
#[derive(Default)]
pub struct Records {
    pack: Option<PathBuf>,
    folder: Option<PathBuf>,
    /// Whether none is to be used.
    off: bool,
    /// What was read, by file.
    sheets: Once<PathBuf, Arc<Vec<Arc<Record>>>>,
}

/// What a look for a record gave.
#[derive(Debug)]
pub enum Found {
    /// The one to use.
    Record(Arc<Record>),
    /// There is none.
    None,
    /// There is one that must not be used here.
    Refused(Refused),
}

/// A record that is not used, and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the record of {} in {} is not used: {why}; {}", record.key.in_words(*sums), file.display(), remedy(command.as_deref()))]
pub struct Refused {
    /// The record.
    pub record: Arc<Record>,
    /// Where it lies.
    pub file: PathBuf,
    /// The type of the sums of what it is for, if it has any.
    pub sums: Option<Accumulate>,
    /// Why.
    pub why: Refusal,
    /// The command that makes another one of the same key; none for what only a program of one's
    /// own measures.
    pub command: Option<String>,
}

fn remedy(command: Option<&str>) -> String {
    match command {
        Some(command) => format!("run `{command}`"),
        None => "`rowloom tune` does not measure such calls: do so with the program that made it".to_owned(),
    }
}

/// What became of a record that was added.
#[derive(Clone, Debug, PartialEq)]
pub enum Added {
    /// There was none of its key.
    New,
    /// It was there.
    Same,
    /// In place of this one.
    Replaced(Arc<Record>),
}

/// A record and where it lies.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its file.
    pub file: PathBuf,
    /// The record.
    pub record: Arc<Record>,
}

impl Records {
    /// Those of this process, as the environment says.
    pub fn of_process() -> &'static Records {
        static RECORDS: OnceLock<Records> = OnceLock::new();
        RECORDS.get_or_init(|| {
            let (settings, faults) = Settings::from_environment();
            for fault in faults.iter().filter(|fault| fault.name == Settings::TUNE) {
                notice::once("tuning", &fault.to_string());
            }
            Records::new(&settings)
        })
    }

    /// Those of these settings.
    pub fn new(settings: &Settings) -> Records {
        let Settings { pack, folder, tuned, .. } = settings;
        Records { off: !tuned, ..Records::over(pack.as_deref(), folder.as_deref()) }
    }

    /// Those of a pack and of a cache folder.
    pub fn over(pack: Option<&Path>, folder: Option<&Path>) -> Records {
        let (pack, folder) = (pack.map(Path::to_owned), folder.map(Path::to_owned));
        Records { pack, folder, ..Records::default() }
    }

    /// The record for a subject at `positions` on this machine: a pack's, else the cache folder's.
    pub fn find(&self, subject: &Subject, machine: &Machine<'_>, positions: u64) -> Found {
        let mut refused = None;
        let mut wanted = None;
        for (file, records) in self.sheets(&of(subject, &machine.product)) {
            // Naming a kernel means to hash it.
            let wanted = wanted.get_or_insert_with(|| For::of(subject, machine.arch, positions));
            let Some(record) = records.iter().find(|record| record.key == *wanted) else { continue };
            match machine.check(subject, record) {
                Ok(()) => return Found::Record(record.clone()),
                Err(why) => {
                    let record = record.clone();
                    refused.get_or_insert_with(|| Refused {
                        command: command::of(subject, &record),
                        sums: For::sums(subject),
                        record,
                        file,
                        why,
                    });
                }
            }
        }
        refused.map_or(Found::None, Found::Refused)
    }

    /// Whether there may be a record of a kernel on a product: far cheaper than [`Records::find`].
    pub(crate) fn has_kernel(&self, name: &str, product: &str) -> bool {
        !self.sheets(&Of::Kernel { name: name.to_owned(), product: product.to_owned() }).is_empty()
    }

    /// The files that are there and hold records of this, those of the pack first.
    fn sheets(&self, of: &Of) -> Vec<(PathBuf, Arc<Vec<Arc<Record>>>)> {
        if self.off {
            return Vec::new();
        }
        let mut sheets = Vec::new();
        for folder in [&self.pack, &self.folder].into_iter().flatten() {
            let file = folder.join(PART).join(of.file_name());
            let read = || Ok::<_, std::convert::Infallible>(Arc::new(used(&file, of)));
            let Ok(records) = self.sheets.get(&file, read);
            if !records.is_empty() {
                sheets.push((file, records));
            }
        }
        sheets
    }

    /// Adds a record to the cache folder, in place of the one of an equal key and product. This
    /// process uses it for what it has not run yet.
    ///
    /// # Errors
    /// [`Error::Records`] when the folder cannot be written, or its file holds something else.
    pub fn add(&self, record: &Record) -> Result<Added, Error> {
        let mut added = self.add_all(&[Arc::new(record.clone())])?;
        Ok(added.pop().unwrap_or(Added::New))
    }

    /// The same for many, each with what became of it.
    ///
    /// # Errors
    /// As [`Records::add`]: then some may have been added.
    pub fn add_all(&self, records: &[Arc<Record>]) -> Result<Vec<Added>, Error> {
        let Some(folder) = &self.folder else {
            return Err(Error::NoCache);
        };
        let part = folder.join(PART);
        let refused = |path: &Path, problem: String| Error::Records { path: path.to_owned(), problem };
        make(folder, &part).map_err(|error| refused(&part, error.to_string()))?;
        let _held = match lock::lock(&part.join(LOCK), LOCK_TIMEOUT) {
            Outcome::Held(held) => held,
            Outcome::None(error) => return Err(refused(&part, format!("locking it: {error}"))),
            Outcome::TimedOut => {
                let seconds = LOCK_TIMEOUT.as_secs();
                let problem = format!("another process has been writing it for {seconds} seconds; try again");
                return Err(refused(&part, problem));
            }
        };
        remove_unfinished(&part).map_err(|error| refused(&part, error.to_string()))?;
        let mut open: Vec<(PathBuf, Sheet)> = Vec::new();
        let mut added = Vec::new();
        for record in records {
            let of = Of::record(record);
            let path = part.join(of.file_name());
            let at = match open.iter().position(|(known, _)| *known == path) {
                Some(at) => at,
                None => {
                    let there = Sheet::read(&path).and_then(|there| expect(there, &of));
                    let there = there.map_err(|reason| refused(&path, format!("{reason}; move it away")))?;
                    open.push((path, there.unwrap_or_else(|| Sheet::new(of, Vec::new()))));
                    open.len() - 1
                }
            };
            added.push(put(&mut open[at].1.records, record));
        }
        for (path, sheet) in open {
            let text = sheet.text().map_err(|reason| refused(&path, reason))?;
            place(&part, &path, text.as_bytes()).map_err(|error| refused(&path, error.to_string()))?;
            self.sheets.forget(&path);
        }
        Ok(added)
    }

    /// The record of a key and product in the cache folder, whatever the environment turns off. It
    /// may not be usable here.
    pub fn kept(&self, key: &For, product: &str) -> Option<Arc<Record>> {
        let product = product.to_owned();
        let of = match key {
            For::Kernel { name, .. } => Of::Kernel { name: name.clone(), product },
            For::Plan { .. } => Of::Plan { product },
        };
        let file = self.folder.as_ref()?.join(PART).join(of.file_name());
        let sheet = Sheet::read(&file).and_then(|sheet| expect(sheet, &of)).ok()??;
        sheet.records.into_iter().find(|record| record.key == *key)
    }

    /// Whether a file lies among the records themselves.
    pub fn holds(&self, file: &Path) -> bool {
        let parts = [&self.pack, &self.folder].into_iter().flatten().map(|folder| folder.join(PART));
        let whole = |path: &Path| path.canonicalize().ok();
        let folder = file.parent().and_then(whole);
        parts.into_iter().any(|part| whole(&part).is_some_and(|part| folder.as_ref() == Some(&part)))
    }

    /// Every record there is, whatever the environment turns off, and every file that is none of records.
    pub fn all(&self) -> (Vec<Kept>, Vec<Damage>) {
        let (mut kept, mut damaged) = (Vec::new(), Vec::new());
        for folder in [&self.pack, &self.folder].into_iter().flatten() {
            let part = folder.join(PART);
            let mut paths: Vec<PathBuf> = match part.read_dir() {
                Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
                Err(error) => {
                    damaged.extend(no_folder(folder).or_else(|| no_folder(&part)).map_or_else(
                        || (!files::is_absent(&error)).then(|| Damage { path: part, reason: error.to_string() }),
                        Some,
                    ));
                    continue;
                }
            };
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
            paths.sort();
            for path in paths {
                let named = |sheet: Sheet| match path.file_name() {
                    Some(name) if *name == *sheet.of.file_name() => Ok(sheet.records),
                    Some(_) | None => Err(format!("it must be called {}", sheet.of.file_name())),
                };
                match Sheet::read(&path).and_then(|sheet| sheet.map_or(Ok(Vec::new()), named)) {
                    Ok(records) => {
                        kept.extend(records.into_iter().map(|record| Kept { file: path.clone(), record }));
                    }
                    Err(reason) => damaged.push(Damage { path, reason }),
                }
            }
        }
        (kept, damaged)
    }
}

/// What lies in the place of a folder, if it is none.
fn no_folder(path: &Path) -> Option<Damage> {
    let is_other = path.metadata().is_ok_and(|there| !there.is_dir());
    is_other.then(|| Damage { path: path.to_owned(), reason: "it is no folder".to_owned() })
}

/// The folder of records. A pack's is for whoever may read the pack.
fn make(folder: &Path, part: &Path) -> std::io::Result<()> {
    files::create(folder)?;
    match std::fs::create_dir(part) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Puts a record among others.
fn put(records: &mut Vec<Arc<Record>>, record: &Arc<Record>) -> Added {
    match records.iter_mut().find(|known| known.key == record.key) {
        Some(known) if known == record => Added::Same,
        Some(known) => Added::Replaced(std::mem::replace(known, record.clone())),
        None => {
            records.push(record.clone());
            Added::New
        }
    }
}

fn of(subject: &Subject, product: &str) -> Of {
    let product = product.to_owned();
    match subject {
        Subject::Kernel { kernel, .. } => Of::Kernel { name: kernel.name.clone(), product },
        Subject::Plan(_) => Of::Plan { product },
    }
}

/// A file under the name of something else may not be used.
fn expect(sheet: Option<Sheet>, of: &Of) -> Result<Option<Sheet>, String> {
    match sheet {
        Some(sheet) if sheet.of != *of => Err(format!("it must be called {}", sheet.of.file_name())),
        other => Ok(other),
    }
}

/// The records of a file, none of one that is of no use.
fn used(file: &Path, of: &Of) -> Vec<Arc<Record>> {
    match Sheet::read(file).and_then(|sheet| expect(sheet, of)) {
        Ok(sheet) => {
            let mut records = sheet.map_or_else(Vec::new, |sheet| sheet.records);
            records.retain(|record| match record.check() {
                Ok(()) => true,
                Err(why) => {
                    let (key, file) = (&record.key, file.display());
                    notice::once(
                        &format!("record {key:?} in {file}"),
                        &format!("the record of {key} in {file} is not used: {why}"),
                    );
                    false
                }
            });
            records
        }
        Err(reason) => {
            let file = file.display();
            let message = format!("the records of tuning in {file} are not used: {reason}");
            notice::once(&format!("records in {file}"), &message);
            Vec::new()
        }
    }
}
