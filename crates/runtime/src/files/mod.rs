//! Files that appear whole or not at all, and locks over processes.

pub(crate) mod lock;

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::path::Path;

/// What the names of unfinished files begin with.
pub(crate) const UNFINISHED: &str = ".new-";

/// Files of writers that were killed: whoever holds the lock is the only one alive.
pub(crate) fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(UNFINISHED) {
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(())
}

/// Puts a file in place as a whole, readable by whoever the user's mask allows.
pub(crate) fn place(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// A folder for this user alone: code that is loaded must not be anybody else's.
pub(crate) fn create(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The file, or a folder above it, is not there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
