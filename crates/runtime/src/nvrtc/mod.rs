//! NVRTC: CUDA C to machine code, without a toolkit's headers and without a GPU.
//!
//! The library is found at run time ([`search`]) and called through a table of
//! its functions ([`api`]). Code is made for the device's own architecture, as a
//! cubin: nothing is left for the driver to compile, so that an NVRTC newer than
//! the driver does no harm. Only for an architecture that NVRTC does not know is
//! PTX made, of the newest one below.

mod api;
mod compiler;
mod search;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rowloom_codegen::cuda::Target;
use rowloom_codegen::{Arch, Source};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use api::Api;
pub use compiler::Compiler;
pub(crate) use compiler::{Invocation, options_of_every_version};
pub use search::look_into_python;
pub(crate) use search::{ENVIRONMENT, python};

/// A loaded NVRTC.
pub struct Nvrtc {
    api: Api,
    path: PathBuf,
    file: Option<PathBuf>,
    compiler: Compiler,
}

/// Machine code of one source.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The code.
    pub image: Vec<u8>,
    /// What it is.
    pub format: ImageFormat,
    /// What NVRTC said: warnings, and what `--ptxas-options=-v` asks for.
    pub log: String,
}

/// What machine code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// For one architecture.
    Cubin,
    /// Text that the driver compiles.
    Ptx,
}

impl Nvrtc {
    /// What to do where there is none.
    pub const HOW_TO_GET: &str = "install the CUDA toolkit or the Python wheel nvidia-cuda-nvrtc (a Python environment \
                                  that is active is looked in), or set ROWLOOM_NVRTC to the library (in a checkout, \
                                  `cargo xtask nvrtc` fetches it)";

    /// The NVRTC of this process: the first that is found, looked for once.
    ///
    /// # Errors
    /// [`Error::NoNvrtc`] names everything looked for.
    pub fn find() -> Result<&'static Nvrtc, Error> {
        static FOUND: OnceLock<Result<Nvrtc, Vec<String>>> = OnceLock::new();
        let found = FOUND.get_or_init(|| Nvrtc::first_of(search::candidates()));
        found.as_ref().map_err(|searched| Error::NoNvrtc { searched: searched.clone() })
    }

    /// The NVRTC in this file.
    ///
    /// # Errors
    /// [`Error::NoNvrtc`] when it is none.
    pub fn load(path: &Path) -> Result<Nvrtc, Error> {
        Nvrtc::first_of([path.to_owned()]).map_err(|searched| Error::NoNvrtc { searched })
    }

    /// The first candidate that is an NVRTC, or why each is none.
    fn first_of(candidates: impl IntoIterator<Item = PathBuf>) -> Result<Nvrtc, Vec<String>> {
        let mut searched = Vec::new();
        for path in candidates {
            match Nvrtc::open(&path) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(reason) => searched.push(match path.exists() {
                    // A file that is there and does not load deserves its reason.
                    true => format!("{} ({reason})", path.display()),
                    false => path.display().to_string(),
                }),
            }
        }
        Err(searched)
    }

    fn open(path: &Path) -> Result<Nvrtc, String> {
        let api = Api::load(path)?;
        let (version, architectures) = (api.version()?, api.architectures()?);
        let file = loaded_file(api.address());
        let library_bytes = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        let compiler = Compiler { version, library_bytes, architectures };
        Ok(Nvrtc { api, path: path.to_owned(), file, compiler })
    }

    /// The file, or the bare name that the loader found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file in memory, where the system tells.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// What decides its code.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.compiler.version
    }

    /// The architectures it knows, ascending.
    pub fn architectures(&self) -> &[Arch] {
        &self.compiler.architectures
    }

    /// Compiles a source for an architecture.
    ///
    /// # Errors
    /// [`Error::Compile`] with the log when NVRTC refuses the source; [`Error::Nvrtc`].
    pub fn compile(&self, source: &Source, arch: Arch) -> Result<Compiled, Error> {
        self.compile_with(source, arch, &[])
    }

    /// The source as PTX for an architecture: text to read, not to load.
    ///
    /// # Errors
    /// As [`Nvrtc::compile`].
    pub fn ptx(&self, source: &Source, arch: Arch) -> Result<Vec<u8>, Error> {
        let invocation = self.compiler.options(&format!("compute_{}", arch.0), ImageFormat::Ptx);
        let mut image = self.invoke(&source.name, &source.text(Target::Device), &invocation)?.image;
        // NVRTC counts the NUL that ends it.
        if image.last() == Some(&0) {
            image.pop();
        }
        Ok(image)
    }

    /// The same with further options, such as `--ptxas-options=-v`, which lists
    /// registers and spills in the log.
    ///
    /// # Errors
    /// As [`Nvrtc::compile`].
    pub fn compile_with(&self, source: &Source, arch: Arch, further: &[&str]) -> Result<Compiled, Error> {
        let mut invocation = self.compiler.invocation(arch)?;
        invocation.options.extend(further.iter().map(ToString::to_string));
        self.invoke(&source.name, &source.text(Target::Device), &invocation)
    }

    /// Compiles a text as an invocation says. PTX ends in a NUL.
    pub(crate) fn invoke(&self, name: &str, text: &str, invocation: &Invocation) -> Result<Compiled, Error> {
        let format = invocation.format;
        let (mut image, log) = self.api.compile(text, &format!("{name}.cu"), &invocation.options, format)?;
        // The driver reads PTX up to a NUL.
        if format == ImageFormat::Ptx && image.last() != Some(&0) {
            image.push(0);
        }
        Ok(Compiled { image, format, log })
    }
}

/// The file that code at this address comes from, where the system tells.
fn loaded_file(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let bound = |digits| usize::from_str_radix(digits, 16).ok();
        let holds = (bound(start)?..bound(end)?).contains(&address);
        // The path is last, and nothing before it has a slash.
        holds.then(|| rest.find('/').map(|path| PathBuf::from(&rest[path..])))?
    })
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NVRTC {} in {}", self.compiler, self.path.display())
    }
}
