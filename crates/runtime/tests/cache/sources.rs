//! Code to be had.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rowloom_codegen::cuda::{PlanShape, Term};
use rowloom_codegen::{Arch, IntType, Source};
use rowloom_runtime::cache::{CacheStats, CodeCache, Disk, Settings};
use rowloom_runtime::{Nvrtc, sources};

/// For whom it all is.
pub const ARCH: Arch = Arch::SM_90;

/// A generated source, one for each number of rows.
pub fn plan(rows: u64) -> Source {
    let term = Term { ty: IntType::I64, factor: 1, bound: rows, pad: None };
    sources::plan(&PlanShape { terms: vec![term], offset: 0, rows, block: 256 }, None).unwrap()
}

/// One that compiles fast.
pub fn small(number: u64) -> Source {
    let body = format!("extern \"C\" __global__ void small(unsigned long long* out) {{\n  out[0] = {number};\n}}\n");
    Source { name: format!("small_{number}"), body, steps: Vec::new(), scratch: Vec::new(), error: None, ..plan(9) }
}

/// Its code as NVRTC makes it, without any cache.
pub fn reference(source: &Source) -> Vec<u8> {
    let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"));
    nvrtc.compile(source, ARCH).unwrap().image
}

/// A new cache over a folder, as a new process has it.
pub fn cache(folder: &Path) -> CodeCache {
    CodeCache::new(Settings { folder: Some(folder.to_owned()), ..Settings::default() })
}

/// The same, but nothing may be compiled.
pub fn only_reads(folder: &Path) -> CodeCache {
    CodeCache::new(Settings { folder: Some(folder.to_owned()), jit: false, ..Settings::default() })
}

/// A cache over a folder whose locks are waited for that long.
pub fn disk(folder: &Path, lock_timeout: Duration) -> Disk {
    Disk::new(folder, 1 << 30, lock_timeout)
}

/// The bytes of one piece of code from a new cache, and what it took.
pub fn get(cache: &CodeCache, source: &Source) -> (Vec<u8>, CacheStats) {
    let image = cache.image(source, ARCH).unwrap_or_else(|error| panic!("{error}"));
    (image.bytes.clone(), cache.stats())
}

/// The files of a part of a cache folder.
pub fn files(folder: &Path, part: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.join(part).read_dir() else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The only entry of a folder.
pub fn entry(folder: &Path) -> PathBuf {
    let files = files(folder, "code");
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}
