//! Code for a device: from a pack, from the user's cache folder, or from NVRTC.
//!
//! The cache never turns a launch that works into one that fails: an entry that
//! is not whole is compiled anew and replaced, a folder that cannot be read or
//! written is done without. The bytes that were checked are the bytes that are
//! loaded. Processes that start together compile each kernel once.
//!
//! Not covered: an entry that somebody with the right to write the folder has
//! forged, checksum and all. The folder is made for its owner alone.

mod disk;
mod entry;
mod inventory;
mod key;
mod pack;
mod remembered;
mod settings;
mod stats;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rowloom_codegen::{Arch, Source};

pub use disk::{Disk, Writer};
pub use inventory::{Damage, Share, Usage};
pub use key::Key;
pub use pack::{Manifest, Pack, PackCode, PackWriter, Packed, pack_key};
pub use settings::{Misspelt, Settings};
pub use stats::{CacheStats, Image, Lookup, Origin};

use crate::error::Error;
use crate::notice;
use crate::nvrtc::{Compiler, ImageFormat, Nvrtc};
use crate::once::{Once, lock};
use entry::{Entry, Found, Kind};
use inventory::Place;
use key::Request;

/// Where a process gets its code from; each piece once.
pub struct CodeCache {
    pack: Result<Option<Pack>, String>,
    disk: Option<Disk>,
    jit: Result<bool, Misspelt>,
    images: Once<Key, Arc<Image>>,
    stats: Mutex<CacheStats>,
    lookups: Mutex<Vec<Lookup>>,
}

impl CodeCache {
    /// The one of this process, as the environment says.
    pub fn of_process() -> &'static CodeCache {
        static CACHE: OnceLock<CodeCache> = OnceLock::new();
        CACHE.get_or_init(|| {
            let (settings, faults) = Settings::from_environment();
            let mut cache = CodeCache::new(settings);
            for fault in faults {
                if fault.name == Settings::JIT {
                    // Who asked for something about compiling would not want the opposite.
                    cache.jit = Err(fault);
                } else if fault.name != Settings::TUNE {
                    notice::once("environment", &fault.to_string());
                }
            }
            cache
        })
    }

    /// One with these settings.
    pub fn new(settings: Settings) -> CodeCache {
        let Settings { pack, folder, limit, jit, lock_timeout, tuned: _ } = settings;
        CodeCache::over(pack.as_deref(), folder.map(|folder| Disk::new(folder, limit, lock_timeout)), jit)
    }

    /// One over this disk.
    #[doc(hidden)]
    pub fn over(pack: Option<&std::path::Path>, disk: Option<Disk>, jit: bool) -> CodeCache {
        let pack = pack.map(Pack::open).transpose().map_err(|error| {
            let message = error.to_string();
            notice::once("pack", &message);
            message
        });
        let (images, stats, lookups) = (Once::default(), Mutex::default(), Mutex::default());
        CodeCache { pack, disk, jit: Ok(jit), images, stats, lookups }
    }

    /// Counts until now.
    pub fn stats(&self) -> CacheStats {
        *lock(&self.stats)
    }

    /// How each piece of code was had, in order.
    pub fn lookups(&self) -> Vec<Lookup> {
        lock(&self.lookups).clone()
    }

    /// The code of a source for an architecture.
    ///
    /// # Errors
    /// [`Error::NoNvrtc`] and [`Error::Compile`] when it must be compiled and cannot;
    /// [`Error::NoCode`] when it must not.
    pub fn image(&self, source: &Source, arch: Arch) -> Result<Arc<Image>, Error> {
        let request = Request::new(source, arch);
        self.images.get(&request.pack_key(), || {
            let start = Instant::now();
            let mut lookup = Lookup {
                source: request.name.clone(),
                origin: Origin::Nvrtc,
                total_us: 0.0,
                compile_us: 0.0,
                nvrtc_load_us: 0.0,
                bytes: 0,
            };
            let image = self.find(&request, &mut lookup)?;
            (lookup.origin, lookup.bytes) = (image.origin, image.bytes.len() as u64);
            lookup.total_us = us(start);
            lock(&self.lookups).push(lookup);
            Ok(Arc::new(image))
        })
    }

    /// The version of the NVRTC whose code of a source would run: as [`CodeCache::image`] looks
    /// for it, but NVRTC is loaded only where nothing else says which it is.
    ///
    /// # Errors
    /// Where there would be no code: [`Error::NoNvrtc`] and [`Error::NoCode`].
    pub fn compiler_of(&self, source: &Source, arch: Arch) -> Result<(u32, u32), Error> {
        let jit = self.jit.clone()?;
        let request = Request::new(source, arch);
        if let Ok(Some(pack)) = &self.pack
            && let Ok(Found::Whole(entry)) = pack.read(request.pack_key())
        {
            return Ok(entry.nvrtc);
        }
        if let Some(disk) = &self.disk
            && let Some(compiler) = remembered::compiler(disk)
        {
            let is_there = || {
                let key = request.key(&compiler, &compiler.invocation(arch)?.options);
                Ok::<bool, Error>(matches!(disk.read(Place::Code, key), Found::Whole(_)))
            };
            if jit || is_there()? {
                return Ok(compiler.version);
            }
        }
        if jit { Ok(Nvrtc::find()?.version()) } else { Err(self.no_code(&request)) }
    }

    /// Pack, cache folder, NVRTC.
    fn find(&self, request: &Request, lookup: &mut Lookup) -> Result<Image, Error> {
        let jit = self.jit.clone()?;
        if let Some(image) = self.in_pack(request) {
            return Ok(image);
        }
        if let Some(disk) = &self.disk
            && let Some(compiler) = remembered::compiler(disk)
            && let Some(image) = self.on_disk(disk, request, &compiler)?
        {
            return Ok(image);
        }
        if !jit {
            self.count(|stats| stats.misses += 1);
            return Err(self.no_code(request));
        }
        let start = Instant::now();
        let nvrtc = Nvrtc::find()?;
        lookup.nvrtc_load_us = us(start);
        self.compile(nvrtc, request, lookup)
    }

    fn in_pack(&self, request: &Request) -> Option<Image> {
        let pack = self.pack.as_ref().ok()?.as_ref()?;
        let complaint = match pack.read(request.pack_key()) {
            Ok(Found::Whole(entry)) => {
                let image = image(entry, Origin::Pack)?;
                self.count(|stats| {
                    stats.pack_hits += 1;
                    stats.bytes_read += image.bytes.len() as u64;
                });
                return Some(image);
            }
            Ok(Found::Nothing) => return None,
            Ok(Found::Damaged(reason)) => reason.to_owned(),
            Err(error) => error.to_string(),
        };
        self.count(|stats| stats.rejected += 1);
        let (folder, name) = (pack.folder().display(), &request.name);
        notice::once("pack", &format!("the pack in {folder} has a bad entry for {name}: {complaint}; make it anew"));
        None
    }

    /// The entry of this compiler's code, if it is there and whole.
    fn on_disk(&self, disk: &Disk, request: &Request, compiler: &Compiler) -> Result<Option<Image>, Error> {
        let key = request.key(compiler, &compiler.invocation(request.arch)?.options);
        Ok(match disk.read(Place::Code, key) {
            Found::Whole(entry) => self.hit(entry),
            Found::Damaged(_) | Found::Nothing => None,
        })
    }

    fn hit(&self, entry: Entry) -> Option<Image> {
        let image = image(entry, Origin::Disk)?;
        self.count(|stats| {
            stats.disk_hits += 1;
            stats.bytes_read += image.bytes.len() as u64;
        });
        Some(image)
    }

    /// Compiles, unless another process is doing it or has done it, and stores.
    fn compile(&self, nvrtc: &Nvrtc, request: &Request, lookup: &mut Lookup) -> Result<Image, Error> {
        let compiler = nvrtc.compiler();
        let invocation = compiler.invocation(request.arch)?;
        let key = request.key(compiler, &invocation.options);
        let mut damaged = false;
        let mut held = None;
        if let Some(disk) = &self.disk {
            if remembered::compiler(disk).as_ref() != Some(compiler) {
                remembered::remember(disk, nvrtc);
            }
            let timed_out;
            (held, timed_out) = disk.lock(key);
            self.count(|stats| stats.lock_timeouts += u64::from(timed_out));
            match disk.read(Place::Code, key) {
                Found::Whole(entry) => {
                    if let Some(image) = self.hit(entry) {
                        return Ok(image);
                    }
                    damaged = true;
                }
                Found::Damaged(_) => damaged = true,
                Found::Nothing => {}
            }
        }
        self.count(|stats| {
            stats.misses += 1;
            stats.rejected += u64::from(damaged);
        });
        let start = Instant::now();
        let compiled = nvrtc.invoke(&request.name, &request.text, &invocation)?;
        lookup.compile_us = us(start);
        self.count(|stats| stats.compiled += 1);
        if compiled.format == ImageFormat::Ptx {
            let arch = request.arch;
            let message =
                format!("NVRTC {compiler} does not know {arch}; the driver compiles its PTX: use a newer NVRTC");
            notice::once("ptx", &message);
        }
        let kind = match compiled.format {
            ImageFormat::Cubin => Kind::Cubin,
            ImageFormat::Ptx => Kind::Ptx,
        };
        let (arch, nvrtc, name) = (request.arch, compiler.version, request.name.clone());
        let entry = Entry { kind, key, arch, nvrtc, name, content: compiled.image };
        if let Some(disk) = &self.disk {
            self.store(disk, &entry, damaged);
        }
        // Only now may others look.
        drop(held);
        Ok(Image { bytes: entry.content, format: compiled.format, nvrtc, origin: Origin::Nvrtc })
    }

    fn store(&self, disk: &Disk, entry: &Entry, damaged: bool) {
        let Some(bytes) = disk.store(Place::Code, entry) else { return };
        let evicted = disk.bound(bytes);
        self.count(|stats| {
            stats.bytes_written += bytes;
            stats.repairs += u64::from(damaged);
            stats.evictions += evicted;
        });
    }

    fn no_code(&self, request: &Request) -> Error {
        let pack = match &self.pack {
            Ok(Some(pack)) => format!("not in the pack {}", pack.folder().display()),
            Ok(None) => "there is no pack, since ROWLOOM_PACK is not set".to_owned(),
            Err(fault) => fault.clone(),
        };
        let disk = match &self.disk {
            Some(disk) => format!("not in the cache {}", disk.folder().display()),
            None => "the cache is turned off".to_owned(),
        };
        Error::NoCode {
            source_name: request.name.clone(),
            arch: request.arch.to_string(),
            key: request.pack_key().short(),
            looked: format!("{pack}; {disk}"),
        }
    }

    fn count(&self, count: impl FnOnce(&mut CacheStats)) {
        count(&mut lock(&self.stats));
    }
}

/// An entry as code; `None` when it is none.
fn image(entry: Entry, origin: Origin) -> Option<Image> {
    let format = match entry.kind {
        Kind::Cubin => ImageFormat::Cubin,
        Kind::Ptx => ImageFormat::Ptx,
        Kind::Compiler => return None,
    };
    Some(Image { bytes: entry.content, format, nvrtc: entry.nvrtc, origin })
}

fn us(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}
