//! From C++ text to a loaded library.

use std::process::Command;

use super::library::Library;
use crate::error::Error;

/// Floating point as written, as [`rowloom_codegen::Source::OPTIONS`] asks of NVRTC; and as
/// much optimisation as compiles fast.
const OPTIONS: [&str; 11] = [
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-threadsafe-statics",
    // A fortified library takes a switch to another stack for an attack.
    "-U_FORTIFY_SOURCE",
    "-w",
];

/// The compiler's command.
pub(super) fn compiler() -> String {
    std::env::var("CXX").ok().filter(|command| !command.is_empty()).unwrap_or_else(|| "g++".to_owned())
}

/// Fails if there is no compiler.
pub(super) fn require_compiler() -> Result<(), Error> {
    let command = compiler();
    match Command::new(&command).arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::NoCompiler { command, error }),
    }
}

/// Compiles and loads one translation unit; `kernels` names what is in it.
pub(super) fn compile(text: &str, kernels: &str) -> Result<Library, Error> {
    let doing = |doing: &str| {
        let doing = format!("{doing} for the emulation");
        move |error| Error::Io { doing, error }
    };
    let folder =
        tempfile::Builder::new().prefix("rowloom-emulation-").tempdir().map_err(doing("making a temporary folder"))?;
    let (unit, library) = (folder.path().join("kernels.cpp"), folder.path().join("kernels.so"));
    std::fs::write(&unit, text).map_err(doing("writing C++ text"))?;
    let command = compiler();
    let output = Command::new(&command)
        .args(OPTIONS)
        .arg("-o")
        .arg(&library)
        .arg(&unit)
        .output()
        .map_err(|error| Error::NoCompiler { command: command.clone(), error })?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Compile { compiler: command, source_name: kernels.to_owned(), log });
    }
    // Once loaded, the file is no longer needed.
    Library::open(&library)
}
