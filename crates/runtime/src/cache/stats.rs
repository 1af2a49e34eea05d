//! What the look-ups of one process came to.

use serde::Serialize;

use crate::nvrtc::ImageFormat;

/// Counts of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheStats {
    /// Pieces of code that came from a pack.
    pub pack_hits: u64,
    /// Pieces of code that came from the cache folder.
    pub disk_hits: u64,
    /// Pieces of code that were found nowhere.
    pub misses: u64,
    /// Pieces of code that NVRTC made.
    pub compiled: u64,
    /// Entries, in the cache or a pack, that were not whole and were not loaded.
    pub rejected: u64,
    /// Entries that were not whole and were replaced.
    pub repairs: u64,
    /// Entries removed to stay within the limit.
    pub evictions: u64,
    /// Waits for another process that were given up.
    pub lock_timeouts: u64,
    /// Bytes of code read.
    pub bytes_read: u64,
    /// Bytes of entries written.
    pub bytes_written: u64,
}

/// Where code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A pack.
    Pack,
    /// The cache folder.
    Disk,
    /// NVRTC, just now.
    Nvrtc,
}

/// Code, and where it came from.
#[derive(Debug)]
pub struct Image {
    /// The code; PTX ends in a NUL.
    pub bytes: Vec<u8>,
    /// What it is.
    pub format: ImageFormat,
    /// Version of the NVRTC that made it.
    pub nvrtc: (u32, u32),
    /// Where it came from.
    pub origin: Origin,
}

/// How one piece of code was had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lookup {
    /// Name of the source.
    pub source: String,
    /// Where it came from.
    pub origin: Origin,
    /// Microseconds of it all: looking, waiting, compiling, storing.
    pub total_us: f64,
    /// Microseconds of NVRTC's compiling; 0 where nothing was compiled.
    pub compile_us: f64,
    /// Microseconds of loading NVRTC for it; 0 where it was loaded already, or not needed.
    pub nvrtc_load_us: f64,
    /// Bytes of the code.
    pub bytes: u64,
}
