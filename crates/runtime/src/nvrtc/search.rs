//! Where NVRTC may be.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names of the library, those that promise least first.
const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// Folders of libraries in a toolkit.
const TOOLKIT_LIBRARIES: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];

/// The environment variables that decide what is found.
pub(crate) const ENVIRONMENT: [&str; 7] =
    ["ROWLOOM_NVRTC", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HOME"];

/// Where the Python is installed that this library is a module of.
static PYTHON: OnceLock<PathBuf> = OnceLock::new();

/// Looks into the wheels of a Python before those of others: of the one that runs, whether or not its
/// environment is active. Said once, before anything is compiled; a second time it is not heard.
pub fn look_into_python(prefix: PathBuf) {
    let _ = PYTHON.set(prefix);
}

/// The Python that was named, which decides what is found as the environment does.
pub(crate) fn python() -> Option<&'static Path> {
    PYTHON.get().map(PathBuf::as_path)
}

/// Everything to try, in order. `ROWLOOM_NVRTC` alone counts where it is set.
pub(super) fn candidates() -> Vec<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = folder("ROWLOOM_NVRTC") {
        return if own.is_dir() { in_folder(&own) } else { vec![own] };
    }
    let mut paths: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder);
    let usual = [PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")];
    for toolkit in toolkits.chain(usual).chain(beginning_with(Path::new("/usr/local"), "cuda-")) {
        paths.extend(TOOLKIT_LIBRARIES.iter().flat_map(|libraries| in_folder(&toolkit.join(libraries))));
    }
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder);
    let own = folder("HOME").map(|home| home.join(".local"));
    let python = python().map(Path::to_owned).into_iter();
    for root in python.chain(environments).chain(own).chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")]) {
        paths.extend(in_python(&root));
    }
    paths
}

/// The library under each of its names.
fn in_folder(folder: &Path) -> Vec<PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).collect()
}

/// In the wheels of NVIDIA of each Python under `root`. One path stands for a
/// Python without them, so that an error says it was looked at.
fn in_python(root: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for python in beginning_with(&root.join("lib"), "python3") {
        for packages in ["site-packages", "dist-packages"] {
            let wheels = python.join(packages).join("nvidia");
            for wheel in beginning_with(&wheels, "") {
                // A wheel's library has its version in its name alone.
                paths.extend(NAMES.iter().map(|name| wheel.join("lib").join(name)).filter(|path| path.exists()));
            }
        }
    }
    if paths.is_empty() {
        paths.push(root.join("lib/python3.*/site-packages/nvidia/*/lib/libnvrtc.so.*"));
    }
    paths
}

/// Entries of a folder whose name begins so, the last first: the newest version
/// of most. Nothing where there is no such folder.
fn beginning_with(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let fits = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(prefix));
    let mut paths: Vec<PathBuf> = paths.filter(fits).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_found_in_any_package_of_an_environment() {
        let root = tempfile::tempdir().unwrap();
        let libraries = root.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&libraries).unwrap();
        assert_eq!(in_python(root.path()).len(), 1, "the pattern, for the error");
        std::fs::write(libraries.join("libnvrtc.so.13"), "").unwrap();
        assert_eq!(in_python(root.path()), [libraries.join("libnvrtc.so.13")]);
    }

    #[test]
    fn newer_toolkits_come_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cuda-12.4", "cuda-13.0", "other"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        assert_eq!(beginning_with(root.path(), "cuda-"), ["cuda-13.0", "cuda-12.4"].map(|name| root.path().join(name)));
    }
}
