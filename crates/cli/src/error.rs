//! What can go wrong, in one sentence each, and the exit code it means.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use rowloom_runtime::cache::Settings;
use rowloom_runtime::tuning::one_line;

/// Why the command did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The request makes no sense: exit code 2.
    Usage(String),
    /// The request makes sense and failed: exit code 1.
    Failed(String),
    /// Whoever read our output has left: exit code 0, nothing to say.
    Closed,
}

/// The usual result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A request that makes no sense.
    pub fn usage(message: impl fmt::Display) -> Error {
        Error::Usage(message.to_string())
    }

    /// A request that failed.
    pub fn failed(message: impl fmt::Display) -> Error {
        Error::Failed(message.to_string())
    }

    /// A file or folder that could not be used for `purpose`.
    pub fn file(purpose: &str, path: &Path, error: &std::io::Error) -> Error {
        Error::Failed(format!("cannot {purpose} {}: {}", path.display(), plain(error)))
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Error::Usage(_) => 2,
            Error::Failed(_) => 1,
            Error::Closed => 0,
        })
    }
}

impl From<rowloom_runtime::Error> for Error {
    fn from(error: rowloom_runtime::Error) -> Error {
        Error::failed(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(message) | Error::Failed(message) => f.write_str(message),
            Error::Closed => f.write_str("the reader of the output has left"),
        }
    }
}

/// What the environment says of the cache. A misspelt ROWLOOM_TUNE cannot change a result: it is said,
/// and the rest is an error.
pub fn settings() -> Result<Settings> {
    let (settings, faults) = Settings::from_environment();
    for fault in faults {
        if fault.name != Settings::TUNE {
            return Err(Error::usage(fault));
        }
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "rowloom: {}", one_line(&fault.to_string()));
    }
    Ok(settings)
}

/// An I/O error in words, without its number.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
