//! What the environment says about code and records of tuning.

use std::env;
use std::path::{self, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;

/// An environment variable whose value means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is `{value}`; it must be {expected}")]
pub struct Misspelt {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: &'static str,
}

/// Where code is looked for, and whether it may be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A pack, looked up first: `ROWLOOM_PACK`.
    pub pack: Option<PathBuf>,
    /// The cache folder: `ROWLOOM_CACHE_DIR`, else `rowloom` in the user's own.
    /// `None` is no cache on disk.
    pub folder: Option<PathBuf>,
    /// Most bytes of the cache folder: `ROWLOOM_CACHE_BYTES`.
    pub limit: u64,
    /// Whether what is found nowhere is compiled: not with `ROWLOOM_JIT=off`.
    pub jit: bool,
    /// Whether records of tuning are used: not with `ROWLOOM_TUNE=off`.
    pub tuned: bool,
    /// Longest wait for another process that compiles the same.
    pub lock_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let lock_timeout = Duration::from_secs(10);
        Settings { pack: None, folder: None, limit: 1 << 30, jit: true, tuned: true, lock_timeout }
    }
}

impl Settings {
    /// The variable that forbids compiling.
    pub(super) const JIT: &'static str = "ROWLOOM_JIT";

    /// The variable that turns records of tuning off.
    pub const TUNE: &'static str = "ROWLOOM_TUNE";

    /// The environment variables that are read.
    pub const ENVIRONMENT: [&'static str; 5] =
        ["ROWLOOM_CACHE_DIR", "ROWLOOM_CACHE_BYTES", "ROWLOOM_PACK", Settings::JIT, Settings::TUNE];

    /// What the environment asks for, and every variable whose value means nothing:
    /// it has its default here. Folders are absolute: a program may change its own.
    pub fn from_environment() -> (Settings, Vec<Misspelt>) {
        let (pack, folder) = (path("ROWLOOM_PACK").map(absolute), folder().map(absolute));
        let mut settings = Settings { pack, folder, ..Settings::default() };
        let mut faults = Vec::new();
        let mut fault = |name, value: String, expected| faults.push(Misspelt { name, value, expected });
        if let Some(value) = word("ROWLOOM_CACHE_BYTES") {
            match value.parse() {
                Ok(limit) => settings.limit = limit,
                Err(_) => fault("ROWLOOM_CACHE_BYTES", value, "a number of bytes such as 1073741824"),
            }
        }
        match word(Settings::JIT).as_deref() {
            None | Some("on") => {}
            Some("off") => settings.jit = false,
            Some(other) => fault(Settings::JIT, other.to_owned(), "on or off"),
        }
        match word(Settings::TUNE).as_deref() {
            None | Some("cached") => {}
            Some("off") => settings.tuned = false,
            Some(other) => fault(Settings::TUNE, other.to_owned(), "off or cached"),
        }
        (settings, faults)
    }
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// In the current folder. One that is gone holds nothing: the path stays as it is, and fails.
fn absolute(folder: PathBuf) -> PathBuf {
    path::absolute(&folder).unwrap_or(folder)
}

fn word(name: &str) -> Option<String> {
    env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

/// An empty name turns the cache off; so does a user without a home.
fn folder() -> Option<PathBuf> {
    match env::var_os("ROWLOOM_CACHE_DIR") {
        Some(_) => path("ROWLOOM_CACHE_DIR"),
        None => etcetera::choose_base_strategy().ok().map(|user| user.cache_dir().join("rowloom")),
    }
}
