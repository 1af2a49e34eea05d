//! What a look at the machine gives.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rowloom_runtime::cache::{Damage, Disk, Pack, Settings, Usage};
use rowloom_runtime::tuning::Records;
use rowloom_runtime::{Error, Nvrtc, driver_release, gpus};
use serde::Serialize;

use crate::error::plain;
use crate::tune;

/// Everything found.
#[derive(Serialize)]
pub struct Findings {
    pub rowloom: &'static str,
    pub cpu: Cpu,
    pub cuda: Found<Cuda>,
    pub nvrtc: Found<Compiler>,
    /// Where NVRTC was looked for, if in vain.
    pub nvrtc_searched: Vec<String>,
    pub cache: Found<Cache>,
    /// `None` where none was asked for.
    pub pack: Option<Found<Contents>>,
    /// Whether code may be compiled.
    pub jit: bool,
    pub tuning: Tuning,
    pub emulation: Found<Emulation>,
    /// The environment variables that matter and are set.
    pub environment: BTreeMap<&'static str, String>,
    /// Whether kernels run on a GPU here, and why not.
    pub gpu_runs: Found<String>,
    /// What an environment variable asks for and is not so.
    pub broken: Vec<String>,
}

/// Something that is there, or the reason why it is not.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Found<T> {
    Yes(T),
    No { missing: String },
}

#[derive(Serialize)]
pub struct Cpu {
    pub threads: usize,
}

#[derive(Serialize)]
pub struct Cuda {
    /// CUDA version that the driver supports.
    pub version: String,
    /// The driver's own release, where the system tells.
    pub driver: Option<String>,
    pub gpus: Vec<GpuFound>,
}

#[derive(Serialize)]
pub struct GpuFound {
    pub device: String,
    pub product: String,
    pub arch: String,
    pub memory_bytes: u64,
}

#[derive(Serialize)]
pub struct Compiler {
    pub path: String,
    pub version: String,
    pub architectures: Vec<String>,
}

#[derive(Serialize)]
pub struct Cache {
    pub folder: String,
    pub limit_bytes: u64,
    pub writable: bool,
    #[serde(flatten)]
    pub usage: Usage,
}

#[derive(Serialize)]
pub struct Contents {
    pub folder: String,
    pub pieces: u64,
    pub architectures: Vec<String>,
}

/// Records of tuning, in the pack and in the cache.
#[derive(Serialize)]
pub struct Tuning {
    /// Not with ROWLOOM_TUNE=off.
    pub used: bool,
    pub records: usize,
    /// Those that calls here would use.
    pub usable: usize,
    /// Files that are none of records.
    pub damaged: Vec<Damage>,
}

#[derive(Serialize)]
pub struct Emulation {
    pub compiler: String,
    pub version: String,
}

/// Variables that decide what is found and what is done.
const ENVIRONMENT: [&str; 14] = [
    "ROWLOOM_NVRTC",
    "ROWLOOM_CACHE_DIR",
    "ROWLOOM_CACHE_BYTES",
    "ROWLOOM_PACK",
    "ROWLOOM_JIT",
    "ROWLOOM_TUNE",
    "ROWLOOM_REQUIRE_GPU",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LD_LIBRARY_PATH",
    "CXX",
];

impl Findings {
    /// Looks at everything; opens no GPU and changes nothing.
    pub fn gather() -> Findings {
        let (settings, faults) = Settings::from_environment();
        let mut broken: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let environment: BTreeMap<&'static str, String> = ENVIRONMENT
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?.to_string_lossy().into_owned())))
            .collect();
        let asked = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let cuda = cuda();
        if let (Found::No { missing }, Some("1")) = (&cuda, asked("ROWLOOM_REQUIRE_GPU").map(String::as_str)) {
            broken.push(format!("ROWLOOM_REQUIRE_GPU=1, but {missing}"));
        }
        let (nvrtc, nvrtc_searched) = nvrtc();
        if let (Found::No { .. }, Some(_)) = (&nvrtc, asked("ROWLOOM_NVRTC")) {
            broken
                .push(format!("ROWLOOM_NVRTC is set, but there is no NVRTC: looked for {}", nvrtc_searched.join(", ")));
        }
        let cache = cache(&settings);
        if let Some(folder) = asked("ROWLOOM_CACHE_DIR") {
            match &cache {
                Found::No { missing } => broken.push(format!("ROWLOOM_CACHE_DIR={folder}: {missing}")),
                Found::Yes(Cache { writable: false, .. }) => {
                    broken.push(format!("ROWLOOM_CACHE_DIR={folder} cannot be written"));
                }
                Found::Yes(_) => {}
            }
        }
        let pack = settings.pack.as_deref().map(|folder| pack(folder, &mut broken));
        let emulation = emulation();
        if let (Found::No { missing }, Some(_)) = (&emulation, asked("CXX")) {
            broken.push(format!("CXX is set, but {missing}"));
        }
        let gpu_runs = gpu_runs(&cuda, &nvrtc, pack.as_ref(), settings.jit);
        let cpu = Cpu { threads: std::thread::available_parallelism().map_or(1, usize::from) };
        let (rowloom, jit) = (env!("CARGO_PKG_VERSION"), settings.jit);
        let (usable, records, damaged) = tune::show::count(&Records::new(&settings));
        let tuning = Tuning { used: settings.tuned, records, usable, damaged };
        Findings {
            rowloom,
            cpu,
            cuda,
            nvrtc,
            nvrtc_searched,
            cache,
            pack,
            jit,
            tuning,
            emulation,
            environment,
            gpu_runs,
            broken,
        }
    }
}

fn cuda() -> Found<Cuda> {
    let (gpus, version) = match gpus() {
        Ok(found) => found,
        Err(error) => return Found::No { missing: error.to_string() },
    };
    if gpus.is_empty() {
        let missing = format!("the driver (CUDA {version}) sees no GPU; look at CUDA_VISIBLE_DEVICES and nvidia-smi");
        return Found::No { missing };
    }
    let gpus = gpus.into_iter().map(|gpu| GpuFound {
        device: format!("cuda:{}", gpu.ordinal),
        product: gpu.product,
        arch: gpu.arch.to_string(),
        memory_bytes: gpu.memory_bytes,
    });
    Found::Yes(Cuda { version, driver: driver_release(), gpus: gpus.collect() })
}

/// With every place looked at where there is none.
fn nvrtc() -> (Found<Compiler>, Vec<String>) {
    match Nvrtc::find() {
        Ok(nvrtc) => {
            let path = nvrtc.file().unwrap_or(nvrtc.path()).display().to_string();
            let architectures = nvrtc.architectures().iter().map(ToString::to_string).collect();
            (Found::Yes(Compiler { path, version: nvrtc.compiler().to_string(), architectures }), Vec::new())
        }
        Err(Error::NoNvrtc { searched }) => {
            (Found::No { missing: format!("no NVRTC: {}", Nvrtc::HOW_TO_GET) }, searched)
        }
        Err(error) => (Found::No { missing: error.to_string() }, Vec::new()),
    }
}

fn cache(settings: &Settings) -> Found<Cache> {
    let Some(folder) = &settings.folder else {
        let missing = "it is turned off: ROWLOOM_CACHE_DIR is empty, or there is no home";
        return Found::No { missing: missing.to_owned() };
    };
    match Disk::new(folder, settings.limit, settings.lock_timeout).usage() {
        Ok(usage) => Found::Yes(Cache {
            folder: folder.display().to_string(),
            limit_bytes: settings.limit,
            writable: writable(folder),
            usage,
        }),
        Err(error) => {
            Found::No { missing: format!("the cache in {} is of no use: {}", folder.display(), plain(&error)) }
        }
    }
}

/// Whether a file can be made in a folder, or in the one where it would be made.
fn writable(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    // A relative path ends in the current folder.
    let there = there.unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(crate::output::PREFIX).tempfile_in(there).is_ok()
}

fn pack(folder: &Path, broken: &mut Vec<String>) -> Found<Contents> {
    let pack = match Pack::open(folder) {
        Ok(pack) => pack,
        Err(error) => {
            broken.push(format!("ROWLOOM_PACK is set, but there is {error}"));
            return Found::No { missing: error.to_string() };
        }
    };
    let (pieces, damaged) = pack.verify();
    if let Some(first) = damaged.first() {
        let (count, path, reason) = (damaged.len(), first.path.display(), &first.reason);
        broken.push(format!("{count} entries of the pack are damaged, first {path}: {reason}; make the pack anew"));
    }
    let mut architectures: Vec<String> = pack.manifest().code.iter().map(|code| code.arch.clone()).collect();
    architectures.sort();
    architectures.dedup();
    Found::Yes(Contents { folder: folder.display().to_string(), pieces, architectures })
}

fn emulation() -> Found<Emulation> {
    let compiler = std::env::var("CXX").ok().filter(|command| !command.is_empty());
    let compiler = compiler.unwrap_or_else(|| "g++".to_owned());
    let how = "install g++ (Debian: `apt-get install g++`) or name another C++17 compiler in CXX";
    match Command::new(&compiler).arg("--version").output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Found::Yes(Emulation { version: text.lines().next().unwrap_or_default().to_owned(), compiler })
        }
        Ok(output) => Found::No { missing: format!("`{compiler} --version` fails ({}); {how}", output.status) },
        Err(error) => Found::No { missing: format!("`{compiler}` does not start: {}; {how}", plain(&error)) },
    }
}

/// Whether code for a GPU can be had.
fn gpu_runs(cuda: &Found<Cuda>, nvrtc: &Found<Compiler>, pack: Option<&Found<Contents>>, jit: bool) -> Found<String> {
    let cuda = match cuda {
        Found::Yes(cuda) => cuda,
        Found::No { missing } => return Found::No { missing: missing.clone() },
    };
    let first = &cuda.gpus[0];
    let what = format!("{}, {}", first.device, first.product);
    if let (Found::Yes(compiler), true) = (nvrtc, jit) {
        let arch = if compiler.architectures.contains(&first.arch) { "" } else { ", as PTX: use a newer NVRTC" };
        return Found::Yes(format!("{what}, compiled by NVRTC {}{arch}", compiler.version));
    }
    if let Some(Found::Yes(pack)) = pack
        && pack.architectures.contains(&first.arch)
    {
        return Found::Yes(format!("{what}, with what is in the pack for {}", first.arch));
    }
    let missing = match nvrtc {
        Found::Yes(_) => format!("ROWLOOM_JIT=off, and there is no pack with code for {}", first.arch),
        Found::No { missing } => missing.clone(),
    };
    Found::No { missing }
}
