//! Files that appear whole or not at all, and locks over processes.

pub(crate) mod lock;

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
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

/// What is in a regular file, of at most so many bytes: why it cannot be had, or nothing where there
/// is no such file.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // Opening a pipe would wait for its writer.
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // It may grow meanwhile, or have a size that is none, such as a file of /proc.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it is larger than {} MiB", limit >> 20));
    }
    Ok(Some(bytes))
}

/// The file, or a folder above it, is not there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
