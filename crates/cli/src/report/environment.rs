//! What ran the report.

use std::path::Path;
use std::process::Command;

use rowloom_runtime::baseline::Ceiling;
use rowloom_runtime::{Device, Nvrtc, driver_release};

use super::schema::{Environment, Keyed};

/// Libraries whose versions the published file names.
const LIBRARIES: [&str; 9] = [
    "torch",
    "triton",
    "diffusers",
    "vllm",
    "flashinfer-python",
    "sglang",
    "liger-kernel",
    "transformer_engine",
    "megatron-core",
];

/// The environment of a report on this device.
pub fn environment(device: &Device, layout: String, ceilings: Keyed<Ceiling>) -> Environment {
    let arch = device.arch().filter(|_| device.name().starts_with("cuda"));
    let on_cpu = arch.is_none();
    Environment {
        gpu: arch.map(|_| device.product()),
        capability: arch.map(|arch| [arch.0 / 10, arch.0 % 10]),
        torch: None,
        cuda: device.driver(),
        python: None,
        tf32: false,
        libraries: LIBRARIES.into_iter().map(|library| (library, None)).collect(),
        megatron_source_commit: None,
        mode_environment: Keyed(vec![("plain".to_owned(), Keyed(Vec::new()))]),
        driver: arch.and_then(|_| driver_release()),
        nvrtc: arch.and_then(|_| nvrtc()),
        device: device.name(),
        cpu: on_cpu.then(cpu).flatten(),
        threads: on_cpu.then(rayon::current_num_threads),
        date: time::OffsetDateTime::now_utc().date().to_string(),
        layout,
        ceilings,
    }
}

/// Version of NVRTC.
fn nvrtc() -> Option<String> {
    let (major, minor) = Nvrtc::find().ok()?.version();
    Some(format!("{major}.{minor}"))
}

/// The processor's name, where the system tells.
fn cpu() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Commit of rowloom's source and whether tracked files differed from it: as git
/// tells where the source is there, else as the build was told.
pub fn commit() -> (Option<String>, Option<bool>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(source).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match git(&["rev-parse", "HEAD"]) {
        Some(commit) => {
            let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
            (Some(commit), changes.map(|changes| !changes.is_empty()))
        }
        None => {
            let told = option_env!("ROWLOOM_COMMIT").map(|commit| match commit.strip_suffix("-dirty") {
                Some(commit) => (commit.to_owned(), true),
                None => (commit.to_owned(), false),
            });
            told.unzip()
        }
    }
}
