//! Where results go: standard output, or a file that appears whole or not at all.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

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

    /// Writes all of it, and files beside it: `(what follows its name, bytes)`. All appear, or
    /// none. Where the output is no file there is nothing beside it.
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
        let mut fresh = Vec::new();
        for (file, path) in files {
            let is_new = !path.exists();
            if let Err(error) = file.persist(&path) {
                for path in &fresh {
                    // What cannot be removed either stays: there is an error to tell already.
                    let _ = std::fs::remove_file(path);
                }
                return Err(Error::file("write", &path, &error.error));
            }
            if is_new {
                fresh.push(path);
            }
        }
        Ok(())
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

/// An empty file beside `path`, removed when dropped.
fn temporary(path: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rowloom-");
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
            format!("{}; choose another --out", crate::error::plain(&error))
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
        let reason = crate::error::plain(&error);
        Error::failed(format!("cannot write to standard output: {reason}"))
    })
}
