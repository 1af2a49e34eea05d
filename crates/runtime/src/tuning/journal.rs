//! What an interrupted search has learnt, on disk: a line of JSON for each step.
//!
//! Kept: what was compiled, compared, and what failed, by the hash of the source, so that a source
//! that is generated otherwise is new. Not kept: times. What ran and failed, or had begun when the
//! run was interrupted, is begun once more by the next one, after all others, for the cause may
//! have been the moment's: memory was short, the machine was busy. The second time it counts. A
//! file that cannot be written, or that another run uses, is done without.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files;
use crate::files::lock::lies_at;
use crate::notice;

/// What is known of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// It compiles.
    Compiled,
    /// It writes the default's bytes.
    Equal,
    /// It writes others: where first.
    Differs(String),
    /// It does not compile, or twice did not run to its end: why.
    Failed(String),
}

/// Where journals lie in a cache folder, and what their names end with.
pub const PART: &str = "searches";
pub const EXTENSION: &str = "search";

/// The journal of one search.
#[derive(Debug, Default)]
pub struct Journal {
    file: Option<(PathBuf, File)>,
    known: HashMap<String, Known>,
    /// Sources that began to run, and did not come to a good end, in earlier runs: how often.
    begun: HashMap<String, u32>,
    /// Those that are begun in this one.
    running: HashSet<String>,
}

/// Most bytes that are read: far more than what a search learns.
const LIMIT: u64 = 16 << 20;

/// Begun so often without a good end, a source is not begun again.
const TRIES: u32 = 2;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// What the search is for, whole.
    Search(String),
    Begun {
        source: String,
    },
    Learnt {
        source: String,
        /// For people.
        schedule: String,
        known: Known,
    },
}

impl Journal {
    /// One that is kept in memory alone.
    pub fn in_memory() -> Journal {
        Journal::default()
    }

    /// The one of the search that `search` names, in a cache folder.
    pub fn in_folder(folder: &Path, search: &str) -> Journal {
        let name = blake3::hash(search.as_bytes()).to_hex();
        Journal::open(&folder.join(PART).join(format!("{}.{EXTENSION}", &name[..32])), search)
    }

    /// The one in this file, of the search that `search` names: what another one has left there is
    /// forgotten.
    pub fn open(path: &Path, search: &str) -> Journal {
        let mut journal = Journal::default();
        let Ok((before, text)) = earlier(path) else { return journal };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().map(serde_json::from_str::<Line>);
        if matches!(lines.next(), Some(Ok(Line::Search(of))) if of == search) {
            // The last line may be cut off.
            lines.map_while(Result::ok).for_each(|line| journal.replay(line));
        }
        // Written anew, so that no half line is left in the middle.
        let Ok(file) = anew(path, before.is_some()) else { return journal };
        journal.file = Some((path.to_owned(), file));
        journal.write(&Line::Search(search.to_owned()));
        let known: Vec<(String, Known)> =
            journal.known.iter().map(|(source, known)| (source.clone(), known.clone())).collect();
        for (source, known) in known {
            journal.write(&Line::Learnt { source, schedule: String::new(), known });
        }
        // Behind what is known: that a source passed the gate takes nothing back of a later failure.
        let begun: Vec<(String, u32)> = journal.begun.iter().map(|(source, count)| (source.clone(), *count)).collect();
        for (source, count) in begun {
            (0..count).for_each(|_| journal.write(&Line::Begun { source: source.clone() }));
        }
        for (source, count) in journal.begun.clone() {
            if count >= TRIES {
                let why = format!("it did not end in {count} runs, which were interrupted");
                journal.learn(&source, "", Known::Failed(why));
            }
        }
        journal
    }

    fn replay(&mut self, line: Line) {
        match line {
            Line::Search(_) => {}
            Line::Begun { source } => *self.begun.entry(source).or_default() += 1,
            Line::Learnt { source, known, .. } => self.keep(source, known),
        }
    }

    fn keep(&mut self, source: String, known: Known) {
        // To compile is not to run.
        if known != Known::Compiled {
            self.begun.remove(&source);
            self.running.remove(&source);
        }
        self.known.insert(source, known);
    }

    /// What is known of a source.
    pub fn known(&self, source: &str) -> Option<&Known> {
        self.known.get(source)
    }

    /// How many sources something is known of.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether an earlier run had begun to run a source, and not come to an end.
    pub(super) fn was_begun(&self, source: &str) -> bool {
        self.begun.contains_key(source)
    }

    /// A source did not run to its end. It counts from the second time on.
    pub(super) fn fail(&mut self, source: &str, schedule: &str, why: &str) {
        if self.begun.get(source).is_some_and(|count| count + 1 >= TRIES) {
            return self.learn(source, schedule, Known::Failed(why.to_owned()));
        }
        // What had passed the gate is not written down as begun.
        if !self.running.contains(source) {
            self.begin(source);
        }
    }

    /// A source is about to be run.
    pub(super) fn begin(&mut self, source: &str) {
        self.running.insert(source.to_owned());
        self.write(&Line::Begun { source: source.to_owned() });
    }

    /// What came of it.
    pub(super) fn learn(&mut self, source: &str, schedule: &str, known: Known) {
        self.keep(source.to_owned(), known.clone());
        self.write(&Line::Learnt { source: source.to_owned(), schedule: schedule.to_owned(), known });
    }

    /// The search is over: the next one begins anew.
    pub(super) fn finish(&mut self) {
        if let Some((path, file)) = self.file.take()
            && lies_at(&file, &path)
        {
            // One that stays costs the next search nothing but what it would find again.
            let _ = std::fs::remove_file(path);
        }
    }

    fn write(&mut self, line: &Line) {
        let Some((_, file)) = &mut self.file else { return };
        let Ok(mut text) = serde_json::to_string(line) else { return };
        text.push('\n');
        if file.write_all(text.as_bytes()).is_err() {
            self.file = None;
        }
    }
}

/// What an earlier run has left, locked, if there is something: nothing is read, made or waited for
/// where something else than a file of ours lies.
fn earlier(path: &Path) -> io::Result<(Option<File>, Vec<u8>)> {
    if let Some(folder) = path.parent() {
        files::create(folder)?;
    }
    let mut text = Vec::new();
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, text)),
        Err(error) => return Err(error),
        Ok(there) if !there.is_file() => {
            let path = path.display();
            let message = format!("what a search learns is not kept in {path}: it is no regular file");
            notice::once(&format!("journal {path}"), &message);
            return Err(io::Error::other(message));
        }
        Ok(_) => {}
    }
    let file = File::open(path)?;
    file.try_lock()?;
    if !lies_at(&file, path) {
        return Err(io::Error::other("another run has it"));
    }
    let mut start = (&file).take(LIMIT + 1);
    start.read_to_end(&mut text)?;
    if text.len() as u64 > LIMIT {
        text.clear();
    }
    Ok((Some(file), text))
}

/// An empty file, locked, in the place of what an earlier run has left, if it has.
fn anew(path: &Path, replaces: bool) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::Builder::new().prefix(files::UNFINISHED).tempfile_in(folder)?;
    file.as_file().try_lock()?;
    // Two runs may begin at once: the first one has it.
    let placed = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
    placed.map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn what_was_learnt_is_known_in_the_next_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/journal");
        let mut journal = Journal::open(&path, "a search");
        journal.learn("a", "x", Known::Equal);
        journal.learn("b", "y", Known::Failed("why".to_owned()));
        drop(journal);
        // A killed run leaves half a line.
        let mut file = OpenOptions::new().append(true).open(&path).expect("the file");
        file.write_all(b"{\"learnt\":{\"source\":\"c\"").expect("written");
        drop(file);
        for _ in 0..2 {
            let journal = Journal::open(&path, "a search");
            assert_eq!(journal.len(), 2);
            assert_eq!(journal.known("a"), Some(&Known::Equal));
            assert_eq!(journal.known("b"), Some(&Known::Failed("why".to_owned())));
        }
        assert!(Journal::open(&path, "another search").is_empty());
        assert!(Journal::open(&path, "a search").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn whatever_lies_in_its_place_is_left_alone() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().expect("a folder");
        let (cache, own) = (folder.path().join("cache"), folder.path().join("own"));
        std::fs::write(&own, "kept").expect("written");
        drop(Journal::in_folder(&cache, "s"));
        let mode = |path: &Path| path.metadata().expect("a folder").permissions().mode() & 0o777;
        assert_eq!((mode(&cache), mode(&cache.join(PART))), (0o700, 0o700));
        let path = cache.join(PART).join("x");
        for target in [&*own, Path::new("/dev/zero"), Path::new("/none")] {
            symlink(target, &path).expect("a link");
            let mut journal = Journal::open(&path, "s");
            journal.learn("a", "", Known::Equal);
            journal.finish();
            assert!(path.symlink_metadata().expect("a link").is_symlink());
            std::fs::remove_file(&path).expect("removed");
        }
        assert_eq!(std::fs::read_to_string(&own).expect("a file"), "kept");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        Journal::open(&path, "s").learn("a", "", Known::Equal);
        std::fs::remove_file(&path).expect("removed");
        // Larger than any: begun anew.
        File::create(&path).and_then(|file| file.set_len(LIMIT + 1)).expect("a file");
        Journal::open(&path, "s").learn("a", "", Known::Equal);
        assert_eq!(Journal::open(&path, "s").known("a"), Some(&Known::Equal));
    }

    #[test]
    fn what_never_ends_is_begun_twice_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        for run in 0..2 {
            let mut journal = Journal::open(&path, "s");
            assert_eq!((journal.known("hangs"), journal.was_begun("hangs")), (None, run == 1));
            journal.begin("ends");
            journal.learn("ends", "", Known::Equal);
            journal.begin("hangs");
        }
        let journal = Journal::open(&path, "s");
        assert!(matches!(journal.known("hangs"), Some(Known::Failed(why)) if why.contains("2 runs")));
        assert_eq!(journal.known("ends"), Some(&Known::Equal));
    }

    #[test]
    fn what_fails_once_may_run_again_and_what_fails_twice_may_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        for run in 0..2 {
            let mut journal = Journal::open(&path, "s");
            // At the gate, and after it.
            assert_eq!((journal.known("gate"), journal.was_begun("gate")), (None, run == 1));
            journal.begin("gate");
            journal.fail("gate", "", "out of memory");
            assert_eq!(journal.known("later"), (run == 1).then_some(&Known::Equal));
            if run == 0 {
                journal.begin("later");
                journal.learn("later", "", Known::Equal);
            }
            journal.fail("later", "", "it did not end");
            // One that does better the second time.
            journal.begin("luck");
            match run {
                0 => journal.fail("luck", "", "out of memory"),
                _ => journal.learn("luck", "", Known::Equal),
            }
        }
        let journal = Journal::open(&path, "s");
        assert_eq!(journal.known("gate"), Some(&Known::Failed("out of memory".to_owned())));
        assert_eq!(journal.known("later"), Some(&Known::Failed("it did not end".to_owned())));
        assert_eq!((journal.known("luck"), journal.was_begun("luck")), (Some(&Known::Equal), false));
    }

    #[test]
    fn a_finished_search_and_a_second_user_leave_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let mut first = Journal::open(&path, "s");
        first.learn("a", "", Known::Compiled);
        let mut second = Journal::open(&path, "s");
        assert!(second.is_empty());
        second.learn("b", "", Known::Compiled);
        second.finish();
        assert!(path.exists(), "it is the first one's");
        first.finish();
        assert!(!path.exists());
        // Nowhere to write.
        let mut nowhere = Journal::open(Path::new("/dev/null/journal"), "s");
        nowhere.learn("a", "", Known::Equal);
        assert_eq!(nowhere.known("a"), Some(&Known::Equal));
    }
}
