//! Where results go: standard output, or a file that appears whole or not at all.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, plain};

/// What names of files that are not there to stay begin with.
pub const PREFIX: &str = ".rowloom-";

/// Where a result goes.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A regular file, put in place by renaming, and those beside it.
    File {
        /// Where.
        path: PathBuf,
        /// What may lie beside it.
        beside: Vec<Beside>,
        /// The option that names it.
        option: &'static str,
    },
    /// Something that is no regular file, such as `/dev/null`: written through.
    Through(PathBuf),
}

/// A file that may lie beside the output.
#[derive(Debug)]
pub struct Beside {
    /// What follows the output's name in its own.
    end: &'static str,
    /// By that name, which may be a link.
    path: PathBuf,
    /// What is written: where the link leads.
    target: PathBuf,
}

impl Output {
    /// The output of this path, standard output if there is none. Fails at once,
    /// before any work, when nothing could be written there.
    pub fn open(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else {
            return Ok(Output::Stdout);
        };
        Output::open_with(path, &[])
    }

    /// The same with files beside it, whose names end in `ends`.
    pub fn open_with(path: &Path, ends: &[&'static str]) -> Result<Output> {
        Output::open_named(path, ends, "--out")
    }

    /// One that another option names than `--out`.
    pub fn open_named(path: &Path, ends: &[&'static str], option: &'static str) -> Result<Output> {
        if names_a_folder(path) && !path.is_dir() {
            return Err(refused(path, "it names a folder; name a file in it"));
        }
        let path = target(path, option)?;
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => return Err(refused(&path, "it is a folder; name a file in it")),
            Ok(metadata) if !metadata.is_file() => return Ok(Output::Through(path)),
            Ok(_) | Err(_) => writable(&path, option)?,
        }
        let beside = ends.iter().map(|&end| {
            let name = beside(&path, end);
            let target = target(&name, option)?;
            match target.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    return Err(refused(&target, &format!("it is a folder; move it or choose another {option}")));
                }
                Ok(metadata) if !metadata.is_file() => {
                    return Err(refused(&target, &format!("it is no file; move it or choose another {option}")));
                }
                Ok(_) | Err(_) => writable(&target, option)?,
            }
            Ok(Beside { end, path: name, target })
        });
        let beside = beside.collect::<Result<_>>()?;
        Ok(Output::File { path, beside, option })
    }

    /// Whether bytes that are no text would land on somebody's screen.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Output::Stdout) && std::io::stdout().is_terminal()
    }

    /// What is written, but for standard output.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Output::File { path, .. } | Output::Through(path) => Some(path),
            Output::Stdout => None,
        }
    }

    /// Writes all of it.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.write_with(bytes, &[])
    }

    /// Writes all of it, and files beside it: `(what follows its name, bytes)`. Those that it was
    /// opened with and that are not given are removed: they would be another output's. When one
    /// cannot be put in place, all that were there before are there again. Where the output is no
    /// file there is nothing beside it.
    pub fn write_with(&self, bytes: &[u8], given: &[(String, &[u8])]) -> Result<()> {
        let (path, beside, option) = match self {
            Output::Stdout => return print(bytes),
            Output::Through(path) => {
                return std::fs::write(path, bytes).map_err(|error| Error::file("write", path, &error));
            }
            Output::File { path, beside, option } => (path, beside, option),
        };
        let mut steps = Vec::new();
        for Beside { end, path, target } in beside {
            match given.iter().find(|(given, _)| given == end) {
                Some((_, bytes)) => steps.push((Some(filled(target, bytes, option)?), target)),
                None if path.symlink_metadata().is_ok() => steps.push((None, path)),
                None => {}
            }
        }
        // The file itself last: where it is, the others are. It is put in place in one step or not at all.
        let before = steps.iter().map(|(_, path)| Before::keep(path)).collect::<Result<Vec<Before>>>()?;
        steps.push((Some(filled(path, bytes, option)?), path));
        let mut before = before.into_iter();
        let mut done = Vec::new();
        for (file, path) in steps {
            let (purpose, result) = match file {
                Some(file) => ("write", file.persist(path).map(drop).map_err(|error| error.error)),
                None => ("remove", std::fs::remove_file(path)),
            };
            if let Err(error) = result {
                let mut message = Error::file(purpose, path, &error).to_string();
                for (before, path) in done {
                    if let Err(why) = Before::restore(before, path) {
                        message += &format!("; {why}");
                    }
                }
                return Err(Error::failed(message));
            }
            if let Some(before) = before.next() {
                done.push((before, path));
            }
        }
        Ok(())
    }
}

/// What was at a path before it was written.
enum Before {
    Nothing,
    /// Another name of the file, or a copy of it, removed when dropped.
    File(tempfile::NamedTempFile<()>),
}

impl Before {
    fn keep(path: &Path) -> Result<Before> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Before::Nothing),
            Err(error) => return Err(Error::file("read", path, &error)),
            Ok(_) => {}
        }
        let mut builder = tempfile::Builder::new();
        let kept = builder.prefix(PREFIX).make_in(folder(path), |kept| match std::fs::hard_link(path, kept) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // Not every file system has them.
                std::fs::copy(path, kept).map(drop)
            }
            linked => linked,
        });
        kept.map(Before::File).map_err(|error| Error::file("keep what is in", path, &error))
    }

    /// Puts it back; the reason, and where it is now, when that fails.
    fn restore(self, path: &Path) -> std::result::Result<(), String> {
        match self {
            Before::Nothing => std::fs::remove_file(path)
                .map_err(|error| format!("{} is new and could not be removed: {}", path.display(), plain(&error))),
            Before::File(kept) => kept.persist(path).map(drop).map_err(|error| {
                let why = plain(&error.error);
                let kept = error.file.into_temp_path();
                let place = kept.display().to_string();
                // It is all that is left of it.
                let _ = kept.keep();
                format!("what was {} is now {place}, for it could not be put back: {why}", path.display())
            }),
        }
    }
}

/// `folder/name-end` of `folder/name.json`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or(path.as_os_str()).to_owned();
    name.push(format!("-{end}"));
    path.with_file_name(name)
}

/// Whether a path says that it is a folder's, whatever is there.
fn names_a_folder(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let last = bytes.rsplit(|&byte| std::path::is_separator(byte.into())).next();
    matches!(last, Some(b"" | b"." | b"..")) && !bytes.is_empty()
}

fn refused(path: &Path, why: &str) -> Error {
    Error::failed(format!("cannot write {}: {why}", path.display()))
}

/// Fails where no file of this name can be put in place.
fn writable(path: &Path, option: &str) -> Result<()> {
    // A name may be too long where that of a temporary file is not.
    if let Err(error) = path.symlink_metadata()
        && error.kind() != ErrorKind::NotFound
    {
        return Err(refused(path, &format!("{}; choose another {option}", plain(&error))));
    }
    // Not kept until the end: an interrupted run must leave nothing behind.
    temporary(path, option).map(drop)
}

/// Most links that are followed.
const MOST_LINKS: usize = 40;

/// What a path means: renaming replaces a link, but its target is meant, even one that is not there yet.
fn target(path: &Path, option: &str) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = target.canonicalize() {
            return Ok(whole);
        }
        let Ok(link) = std::fs::read_link(&target) else { return Ok(target) };
        target = target.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(Error::failed(format!("cannot write {}: its links lead in a circle; choose another {option}", path.display())))
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// An empty file beside `path`, removed when dropped.
fn temporary(path: &Path, option: &str) -> Result<tempfile::NamedTempFile> {
    let folder = folder(path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any new file: what the user's mask leaves.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| {
        let missing = error.kind() == ErrorKind::NotFound;
        let advice = if missing && folder.is_dir() {
            // A file system without files of one's own says so too, such as /proc.
            format!("no file can be made in it; choose another {option}")
        } else if missing {
            format!("there is no such folder; make it or choose another {option}")
        } else {
            format!("{}; choose another {option}", plain(&error))
        };
        Error::failed(format!("cannot write {} into {}: {advice}", name(path), folder.display()))
    })
}

/// A file beside `path` with these bytes, removed when dropped.
fn filled(path: &Path, bytes: &[u8], option: &str) -> Result<tempfile::NamedTempFile> {
    let mut file = temporary(path, option)?;
    file.write_all(bytes).map_err(|error| Error::file("write", path, &error))?;
    Ok(file)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Writes to standard output; a reader that has left is no failure.
pub fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| {
        if error.kind() == ErrorKind::BrokenPipe {
            return Error::Closed;
        }
        let reason = plain(&error);
        Error::failed(format!("cannot write to standard output: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [&str; 2] = ["speed.png", "accuracy.png"];

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).expect("read")
    }

    #[test]
    fn what_was_there_is_there_again_when_the_last_file_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let output = Output::open_with(&path("r.json"), &ENDS).expect("an output");
        std::fs::write(path("r-speed.png"), "old speed").expect("written");
        let beside = [("speed.png", "new speed"), ("accuracy.png", "new accuracy")]
            .map(|(end, text)| (end.to_owned(), text.as_bytes()));

        // No file can take a folder's place.
        std::fs::create_dir(path("r.json")).expect("made");
        for given in [&beside[..], &[]] {
            let refused = output.write_with(b"{}", given).expect_err("refused").to_string();
            assert!(refused.starts_with("cannot write ") && refused.contains("r.json: "), "{refused}");
            assert_eq!(names(folder.path()), ["r-speed.png", "r.json"]);
            assert_eq!(read(&path("r-speed.png")), "old speed");
        }

        std::fs::remove_dir(path("r.json")).expect("removed");
        output.write_with(b"{}", &beside).expect("written");
        assert_eq!(names(folder.path()), ["r-accuracy.png", "r-speed.png", "r.json"]);
        assert_eq!(read(&path("r-speed.png")), "new speed");
        output.write_with(b"{}", &beside[1..]).expect("written");
        assert_eq!(names(folder.path()), ["r-accuracy.png", "r.json"], "a figure of another report is removed");
    }

    #[test]
    fn every_file_is_looked_at_before_the_work() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let refused = |name: &str| {
            let error = Output::open_with(&path(name), &ENDS).expect_err(name).to_string();
            error.strip_prefix(&format!("cannot write {}", folder.path().display())).expect(&error).to_owned()
        };
        std::fs::create_dir(path("f-speed.png")).expect("made");
        assert_eq!(refused("f.json"), "/f-speed.png: it is a folder; move it or choose another --out");
        let long = "x".repeat(250);
        assert_eq!(refused(&long), format!("/{long}-speed.png: file name too long; choose another --out"));
        for name in ["new/", "new/.", "new//"] {
            assert_eq!(refused(name), format!("/{name}: it names a folder; name a file in it"));
        }
        assert!(refused("f-speed.png/").ends_with("it is a folder; name a file in it"));
        assert_eq!(names(folder.path()), ["f-speed.png"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_beside_are_followed_and_removed() {
        use std::os::unix::fs::symlink;

        let (folder, elsewhere) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let link = folder.path().join("q-speed.png");
        let target = elsewhere.path().join("kept.png");
        symlink(&target, &link).expect("a link");
        let output = Output::open_with(&folder.path().join("q.json"), &ENDS).expect("an output");
        output.write_with(b"{}", &[("speed.png".to_owned(), b"new")]).expect("written");
        assert!(link.symlink_metadata().expect("a link").is_symlink());
        assert_eq!(read(&target), "new");
        output.write(b"{}").expect("written");
        assert_eq!((names(folder.path()), names(elsewhere.path())), (vec!["q.json".into()], vec!["kept.png".into()]));
    }
}
