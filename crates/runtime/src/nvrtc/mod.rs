//! NVRTC: CUDA C to machine code, without a toolkit's headers and without a GPU.
//!
//! The library is found at run time ([`search`]) and called through a table of
//! its functions ([`api`]). Code is made for the device's own architecture, as a
//! cubin: nothing is left for the driver to compile, so that an NVRTC newer than
//! the driver does no harm. Only for an architecture that NVRTC does not know is
//! PTX made, of the newest one below.

mod api;
mod search;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rowloom_codegen::cuda::Target;
use rowloom_codegen::{Arch, Source};

use crate::error::Error;
use api::Api;

/// A loaded NVRTC.
pub struct Nvrtc {
    api: Api,
    path: PathBuf,
    version: (u32, u32),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// For one architecture.
    Cubin,
    /// Text that the driver compiles.
    Ptx,
}

/// Options besides the source's own.
const OPTIONS: [&str; 1] = ["--std=c++17"];

/// The first version that caches on disk unless told not to: a cached compilation has no log.
const CACHES_SINCE: (u32, u32) = (13, 0);

impl Nvrtc {
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
            match Api::load(&path).and_then(|api| Ok((api.version()?, api))) {
                Ok((version, api)) => return Ok(Nvrtc { api, path, version }),
                Err(reason) => searched.push(match path.exists() {
                    // A file that is there and does not load deserves its reason.
                    true => format!("{} ({reason})", path.display()),
                    false => path.display().to_string(),
                }),
            }
        }
        Err(searched)
    }

    /// The file, or the bare name that the loader found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The architectures it knows, ascending.
    ///
    /// # Errors
    /// [`Error::Nvrtc`].
    pub fn architectures(&self) -> Result<Vec<Arch>, Error> {
        self.api.architectures()
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
        let mut image = self.image(source, &format!("compute_{}", arch.0), ImageFormat::Ptx, &[])?.image;
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
        let (target, format) = match self.architectures()?.into_iter().rev().find(|known| *known <= arch) {
            Some(known) if known == arch => (format!("sm_{}", arch.0), ImageFormat::Cubin),
            Some(known) => (format!("compute_{}", known.0), ImageFormat::Ptx),
            None => {
                let (major, minor) = self.version;
                let message = format!("NVRTC {major}.{minor} makes no code for {arch}");
                return Err(Error::Nvrtc { call: "nvrtcGetSupportedArchs", message });
            }
        };
        self.image(source, &target, format, further)
    }

    fn image(&self, source: &Source, target: &str, format: ImageFormat, further: &[&str]) -> Result<Compiled, Error> {
        let mut options = vec![format!("--gpu-architecture={target}")];
        options.extend(Source::OPTIONS.iter().chain(&OPTIONS).chain(further).map(ToString::to_string));
        if self.version >= CACHES_SINCE {
            options.push("--no-cache".to_owned());
        }
        let name = format!("{}.cu", source.name);
        let (image, log) = self.api.compile(&source.text(Target::Device), &name, &options, format)?;
        Ok(Compiled { image, format, log })
    }
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.version;
        write!(f, "NVRTC {major}.{minor} in {}", self.path.display())
    }
}
