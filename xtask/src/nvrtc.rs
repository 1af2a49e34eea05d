//! NVRTC for tests: the one that the environment names, or NVIDIA's wheel in `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{run, target};

/// The wheel whose NVRTC compiles the snapshots. Pinned: register counts and logs are its own.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.5.37";

/// Where NVRTC is, fetched if need be.
pub(crate) fn path() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("ROWLOOM_NVRTC") {
        let named = PathBuf::from(named);
        let no_file = || format!("ROWLOOM_NVRTC={} is no file; name the library itself, or unset it", named.display());
        return if named.is_file() { Ok(named) } else { Err(no_file()) };
    }
    let folder = target().join("nvrtc").join(WHEEL.replace("==", "-"));
    if let Some(library) = library(&folder) {
        return Ok(library);
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // A folder of its own until it is whole, so that an interrupted fetch leaves nothing that looks right.
    let partial = target().join("nvrtc/partial");
    let _ = std::fs::remove_dir_all(&partial);
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"];
    run(Command::new("python3").args(pip).arg("--target").arg(&partial).arg(WHEEL))
        .map_err(|error| format!("{error}; install NVRTC yourself and set ROWLOOM_NVRTC to its path"))?;
    std::fs::remove_dir_all(&folder)
        .and_then(|()| std::fs::rename(&partial, &folder))
        .map_err(|error| format!("cannot move NVRTC to {}: {error}", folder.display()))?;
    library(&folder).ok_or_else(|| format!("{WHEEL} holds no NVRTC for this machine"))
}

/// `nvidia/*/lib/libnvrtc.so.*` below a folder.
fn library(folder: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(folder.join("nvidia")).ok()?;
    let libraries = versions.flatten().filter_map(|version| std::fs::read_dir(version.path().join("lib")).ok());
    let mut found: Vec<PathBuf> = libraries.flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("libnvrtc.so") && !name.contains("builtins")
        })
    });
    found.sort();
    found.into_iter().next()
}
