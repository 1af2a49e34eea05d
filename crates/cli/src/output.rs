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
        // Renaming replaces a link; its target is meant.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
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
        match self {
            Output::Stdout => print(bytes),
            Output::Through(path) => std::fs::write(path, bytes).map_err(|error| Error::file("write", path, &error)),
            Output::File(path) => {
                let mut file = temporary(path)?;
                file.write_all(bytes).map_err(|error| Error::file("write", path, &error))?;
                file.persist(path).map_err(|error| Error::file("write", path, &error.error))?;
                Ok(())
            }
        }
    }
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
        let advice = if error.kind() == ErrorKind::NotFound {
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
