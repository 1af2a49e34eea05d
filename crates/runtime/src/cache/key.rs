//! What names a piece of code: a hash of everything that decides its bytes.

use std::fmt;
use std::str::FromStr;

use rowloom_codegen::cuda::Target;
use rowloom_codegen::{Arch, Source};

use super::entry::FORMAT;
use crate::nvrtc::{Compiler, options_of_every_version};

/// The name of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) [u8; 32]);

/// A source to be had as code for one architecture.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Of the source, for people.
    pub(crate) name: String,
    /// The whole text that is compiled.
    pub(crate) text: String,
    pub(crate) arch: Arch,
}

impl Request {
    pub(crate) fn new(source: &Source, arch: Arch) -> Request {
        Request { name: source.name.clone(), text: source.text(Target::Device), arch }
    }

    /// Its key in the cache, where code of every compiler lies side by side.
    pub(crate) fn key(&self, compiler: &Compiler, options: &[String]) -> Key {
        Parts { text: &self.text, options, arch: self.arch, compiler: Some(compiler), format: FORMAT }.key()
    }

    /// Its key in a pack, which one compiler has made: no process that reads it need know which.
    pub(crate) fn pack_key(&self) -> Key {
        let options = options_of_every_version(&self.arch.to_string());
        Parts { text: &self.text, options: &options, arch: self.arch, compiler: None, format: FORMAT }.key()
    }
}

/// What is hashed. Lengths go before contents: else `-a`, `b` and `-ab` would be one.
struct Parts<'a> {
    text: &'a str,
    options: &'a [String],
    arch: Arch,
    compiler: Option<&'a Compiler>,
    format: u32,
}

impl Parts<'_> {
    fn key(&self) -> Key {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(b"rowloom code");
        field(&self.format.to_le_bytes());
        field(self.text.as_bytes());
        field(&(self.options.len() as u64).to_le_bytes());
        for option in self.options {
            field(option.as_bytes());
        }
        field(&self.arch.0.to_le_bytes());
        if let Some(Compiler { version: (major, minor), library_bytes, .. }) = self.compiler {
            field(&major.to_le_bytes());
            field(&minor.to_le_bytes());
            field(&library_bytes.to_le_bytes());
        }
        Key(*hasher.finalize().as_bytes())
    }
}

impl Key {
    /// The first digits: enough for a person to find it.
    pub fn short(&self) -> String {
        self.to_string()[..16].to_owned()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl FromStr for Key {
    type Err = blake3::HexError;

    fn from_str(word: &str) -> Result<Key, Self::Err> {
        blake3::Hash::from_hex(word).map(|hash| Key(*hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_part_changes_the_key() {
        let compiler = |major, minor, library_bytes| Compiler {
            version: (major, minor),
            library_bytes,
            architectures: vec![Arch::SM_90],
        };
        let options = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let (plain, ftz) = (options(&["-a", "b"]), options(&["-a", "b", "--ftz=false"]));
        let (joined, turned, none) = (options(&["-ab"]), options(&["b", "-a"]), options(&[]));
        let (compiler, older, patch) = (compiler(13, 5, 100), compiler(12, 5, 100), compiler(13, 5, 101));
        let minor = Compiler { version: (13, 4), ..compiler.clone() };
        let base = Parts { text: "text", options: &plain, arch: Arch::SM_90, compiler: Some(&compiler), format: 1 };
        let others = [
            Parts { text: "texu", ..base },
            Parts { text: "text-a", ..base },
            Parts { text: "", ..base },
            Parts { options: &ftz, ..base },
            Parts { options: &joined, ..base },
            Parts { options: &turned, ..base },
            Parts { options: &none, ..base },
            Parts { arch: Arch(80), ..base },
            Parts { compiler: Some(&older), ..base },
            Parts { compiler: Some(&minor), ..base },
            Parts { compiler: Some(&patch), ..base },
            Parts { compiler: None, ..base },
            Parts { format: 2, ..base },
        ];
        let count = others.len() + 1;
        let keys: HashSet<Key> = others.iter().chain([&base]).map(Parts::key).collect();
        assert_eq!(keys.len(), count);
        assert_eq!(base.key(), Parts { ..base }.key());
        // The same on every machine and with every build.
        assert_eq!(base.key().to_string(), "340bdadc02bd01d4eb1fee34e48181a2592289e6c3cbf30ded4cddfcb212917c");
        assert_eq!(base.key().to_string().parse::<Key>().ok(), Some(base.key()));
    }

    /// The architectures that a compiler knows decide its options, which are hashed.
    #[test]
    fn ptx_is_never_found_as_a_cubin() {
        let compiler = |architectures| Compiler { version: (12, 4), library_bytes: 0, architectures };
        let (knows, guesses) = (compiler(vec![Arch(80), Arch(90)]), compiler(vec![Arch(80)]));
        let request = Request { name: "k".to_owned(), text: "text".to_owned(), arch: Arch::SM_90 };
        let key = |compiler: &Compiler| request.key(compiler, &compiler.invocation(Arch::SM_90).unwrap().options);
        assert_ne!(key(&knows), key(&guesses));
    }
}
