//! The Python package: its environment, its wheel, its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{empty, root, run, target, works};
use crate::third_party;
use crate::totals::{Totals, pytest};

/// How a wheel is built.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// From what `cargo test` has built.
    Dev,
    Release,
}

/// What the package's tests are, below the repository: the tests themselves and pytest's settings.
const TESTS: [&str; 2] = ["python/tests", "python/pyproject.toml"];

/// The pages whose examples are tests too, which `tests/pages.py` finds.
const PAGES: [&str; 3] = ["README.md", "docs/python.md", "python/README.md"];

/// Checks the package's types, builds its wheel, and tests that wheel where the source is not to be found.
pub(crate) fn test(nvrtc: &Path) -> Result<Totals, String> {
    let python = tester()?;
    let cache = folder().join("mypy");
    run(Command::new(&python).current_dir(root().join("python")).args(["-m", "mypy", "--cache-dir"]).arg(cache))?;
    let wheel = build(&python, Profile::Dev, &folder().join("wheels"))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
    run(Command::new(&python).args(install).arg(wheel))?;
    let place = folder().join("run");
    lay_tests(&place)?;
    let mut tests = Command::new(&python);
    tests.current_dir(place).args(["-m", "pytest", "-rs", "--color=no"]).env("ROWLOOM_NVRTC", nvrtc);
    pytest(&mut tests)
}

/// Builds the wheel that users install, alone in `target/wheels`; where it is.
pub(crate) fn wheel() -> Result<PathBuf, String> {
    build(&builder()?, Profile::Release, &target().join("wheels"))
}

/// Copies the tests, and the pages that are tests, into a folder of their own.
pub(crate) fn lay_tests(to: &Path) -> Result<(), String> {
    empty(to)?;
    let copy = |from: &Path, to: PathBuf| {
        copy_all(from, &to).map_err(|error| format!("cannot copy {}: {error}", from.display()))
    };
    for from in TESTS {
        let from = root().join(from);
        copy(&from, to.join(from.file_name().unwrap_or_default()))?;
    }
    for page in PAGES {
        let place = to.join("pages").join(page);
        let folder = place.parent().unwrap_or(to);
        std::fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        copy(&root().join(page), place)?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    target().join("python")
}

/// What `python/tests/requirements.txt` names.
fn requirements() -> Result<Vec<String>, String> {
    let wanted = root().join("python/tests/requirements.txt");
    let text =
        std::fs::read_to_string(&wanted).map_err(|error| format!("cannot read {}: {error}", wanted.display()))?;
    Ok(text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(ToOwned::to_owned).collect())
}

/// The interpreter of an environment that has all of them.
fn tester() -> Result<PathBuf, String> {
    environment("venv", &requirements()?)
}

/// That of one which builds wheels: gigabytes less.
fn builder() -> Result<PathBuf, String> {
    let maturin: Vec<String> = requirements()?.into_iter().filter(|line| line.starts_with("maturin")).collect();
    environment("builder", &maturin)
}

/// The interpreter of an environment that has these packages, made if need be.
fn environment(name: &str, wanted: &[String]) -> Result<PathBuf, String> {
    let venv = folder().join(name);
    let python = venv.join("bin/python");
    // Written when all is there, so that an interrupted installation is not taken for one.
    let installed = venv.join("installed.txt");
    let text = wanted.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == text)
        && works(Command::new(&python).arg("--version"))
    {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))
        .map_err(|error| format!("{error}; Python 3.11 or newer with venv and pip is needed"))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&python).args(install).args(wanted))?;
    std::fs::write(&installed, text).map_err(|error| format!("cannot write {}: {error}", installed.display()))?;
    Ok(python)
}

/// Builds the wheel as the one file of a folder; it says what is linked into it.
fn build(python: &Path, profile: Profile, to: &Path) -> Result<PathBuf, String> {
    third_party::check()?;
    empty(to)?;
    let mut maturin = Command::new(python);
    maturin.current_dir(root()).args(["-m", "maturin", "build", "--manifest-path", "python/Cargo.toml"]);
    // A debug build's symbols would be most of the wheel.
    maturin.arg("--strip").args(match profile {
        Profile::Dev => ["--profile", "dev"],
        Profile::Release => ["--profile", "release"],
    });
    run(maturin.arg("--interpreter").arg(python).arg("--out").arg(to).env("CARGO_TARGET_DIR", target()))?;
    let files = std::fs::read_dir(to).map_err(|error| format!("cannot read {}: {error}", to.display()))?;
    let mut wheels =
        files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|ty| ty == "whl"));
    wheels.next().ok_or_else(|| format!("maturin has left no wheel in {}", to.display()))
}

/// Copies a file, or a folder and all in it but what Python has compiled.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return std::fs::copy(from, to).map(drop);
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_name() != "__pycache__" {
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_laid_out_with_the_pages_that_they_run() {
        let place = folder().join("laid");
        lay_tests(&place).unwrap();
        for file in ["tests/pages.py", "pyproject.toml", "pages/README.md", "pages/docs/python.md"] {
            assert!(place.join(file).is_file(), "{file}");
        }
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn wheels_need_the_pinned_maturin_alone() {
        let all = requirements().unwrap();
        assert_eq!(all.iter().filter(|line| line.starts_with("maturin==")).count(), 1);
        assert!(all.iter().all(|line| line.contains("==")), "{all:?}");
    }
}
