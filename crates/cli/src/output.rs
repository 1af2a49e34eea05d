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
    /// A regular file, put in place by renaming.
    File(PathBuf),
    /// Something that is no regular file, such as `/dev/null`: written through.
    Through(PathBuf),
}

impl Output {
    /// The output of this path, standard output if there is none. Fails at once,
    /// before any work, when nothing could be written there.
    pub fn open(path: Option<&Path>) -> Result<Output> {
        let Some(path) = path else {
            return Ok(Output::Stdout);
        };
        let path = target(path)?;
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                Err(Error::failed(format!("cannot write {}: it is a folder; name a file in it", path.display())))
            }
            Ok(metadata) if !metadata.is_file() => Ok(Output::Through(path)),
            Ok(_) | Err(_) => {
                // Not kept until the end: an interrupted run must leave nothing behind.
                temporary(&path)?;
                Ok(Output::File(path))
            }
        }
    }

    /// Whether bytes that are no text would land on somebody's screen.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Output::Stdout) && std::io::stdout().is_terminal()
    }

    /// Writes all of it.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        self.write_with(bytes, &[])
    }

    /// Writes all of it, and files beside it: `(what follows its name, bytes)`. When one cannot be
    /// put in place, all that were there before are there again. Where the output is no file there
    /// is nothing beside it.
    pub fn write_with(&self, bytes: &[u8], beside: &[(String, &[u8])]) -> Result<()> {
        let path = match self {
            Output::Stdout => return print(bytes),
            Output::Through(path) => {
                return std::fs::write(path, bytes).map_err(|error| Error::file("write", path, &error));
            }
            Output::File(path) => path,
        };
        let mut files = Vec::new();
        // The file itself last: where it is, the others are.
        let others = beside.iter().map(|(end, bytes)| (self::beside(path, end), *bytes));
        for (path, bytes) in others.chain([(path.clone(), bytes)]) {
            let mut file = temporary(&path)?;
            file.write_all(bytes).map_err(|error| Error::file("write", &path, &error))?;
            files.push((file, path));
        }
        // All but the last, which is put in place in one step or not at all.
        let replaced = files.split_last().map_or(&[][..], |(_, others)| others);
        let before = replaced.iter().map(|(_, path)| Before::keep(path)).collect::<Result<Vec<Before>>>()?;
        let mut before = before.into_iter();
        let mut written = Vec::new();
        for (file, path) in files {
            if let Err(error) = file.persist(&path) {
                let mut message = Error::file("write", &path, &error.error).to_string();
                for (before, path) in written {
                    if let Err(why) = Before::restore(before, path) {
                        message += &format!("; {why}");
                    }
                }
                return Err(Error::failed(message));
            }
            if let Some(before) = before.next() {
                written.push((before, path));
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
    fn restore(self, path: PathBuf) -> std::result::Result<(), String> {
        match self {
            Before::Nothing => std::fs::remove_file(&path)
                .map_err(|error| format!("{} is new and could not be removed: {}", path.display(), plain(&error))),
            Before::File(kept) => kept.persist(&path).map(drop).map_err(|error| {
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

/// Most links that are followed.
const MOST_LINKS: usize = 40;

/// What a path means: renaming replaces a link, but its target is meant, even one that is not there yet.
fn target(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = target.canonicalize() {
            return Ok(whole);
        }
        let Ok(link) = std::fs::read_link(&target) else { return Ok(target) };
        target = target.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(Error::failed(format!("cannot write {}: its links lead in a circle; choose another --out", path.display())))
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

/// An empty file beside `path`, removed when dropped.
fn temporary(path: &Path) -> Result<tempfile::NamedTempFile> {
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
            "no file can be made in it; choose another --out".to_owned()
        } else if missing {
            "there is no such folder; make it or choose another --out".to_owned()
        } else {
            format!("{}; choose another --out", plain(&error))
        };
        Error::failed(format!("cannot write {} into {}: {advice}", name(path), folder.display()))
    })
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

    #[test]
    fn what_was_there_is_there_again_when_the_last_file_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let output = Output::open(Some(&path("r.json"))).expect("an output");
        std::fs::write(path("r-speed.png"), "old speed").expect("written");
        let beside = [("speed.png", "new speed"), ("accuracy.png", "new accuracy")]
            .map(|(end, text)| (end.to_owned(), text.as_bytes()));
        let names = || {
            let entries = folder.path().read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().expect("text")).collect();
            names.sort();
            names
        };

        // No file can take a folder's place.
        std::fs::create_dir(path("r.json")).expect("made");
        let refused = output.write_with(b"{}", &beside).expect_err("refused").to_string();
        assert!(refused.starts_with("cannot write ") && refused.contains("r.json: "), "{refused}");
        assert_eq!(names(), ["r-speed.png", "r.json"]);
        assert_eq!(std::fs::read_to_string(path("r-speed.png")).expect("read"), "old speed");

        std::fs::remove_dir(path("r.json")).expect("removed");
        output.write_with(b"{}", &beside).expect("written");
        assert_eq!(names(), ["r-accuracy.png", "r-speed.png", "r.json"]);
        assert_eq!(std::fs::read_to_string(path("r-speed.png")).expect("read"), "new speed");
    }
}
