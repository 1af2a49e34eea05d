//! The bytes of an entry, in the cache and in a pack alike.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `rowloom\0` |
//! | 8..12 | version of this format |
//! | 12..16 | what it holds: 1 a cubin, 2 PTX, 3 what is known of a compiler |
//! | 16..48 | its key |
//! | 48..52 | architecture |
//! | 52..60 | NVRTC's major and minor version |
//! | 60..64 | n, bytes of the name |
//! | 64..72 | m, bytes of the content |
//! | 72..104 | BLAKE3 of all other bytes |
//! | 104..104 + n | name of the source, UTF-8 |
//! | … + m, the end | content |
//!
//! Numbers are little-endian. A bit that differs anywhere makes it invalid, and
//! so does a byte more or less.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rowloom_codegen::Arch;

use super::key::Key;
use crate::files::is_absent;

/// Version of the format, and of all that a key means beyond its parts.
pub(super) const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"rowloom\0";
const HEADER: usize = 104;
const CHECKSUM: std::ops::Range<usize> = 72..HEADER;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cubin,
    Ptx,
    Compiler,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Cubin, Kind::Ptx, Kind::Compiler];

    fn number(self) -> u32 {
        match self {
            Kind::Cubin => 1,
            Kind::Ptx => 2,
            Kind::Compiler => 3,
        }
    }
}

/// An entry whose every byte was checked, or that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) arch: Arch,
    pub(super) nvrtc: (u32, u32),
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// What a look at a file gave.
#[derive(Debug)]
pub(super) enum Found {
    /// There is no such file, or none that can be read.
    Nothing,
    /// Something else lies there: why it is no entry.
    Damaged(&'static str),
    /// It is whole.
    Whole(Entry),
}

impl Entry {
    /// Its bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.name.len() + self.content.len());
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.kind.number().to_le_bytes());
        bytes.extend(self.key.0);
        for number in [self.arch.0, self.nvrtc.0, self.nvrtc.1, self.name.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.content.len() as u64).to_le_bytes());
        bytes.extend([0; CHECKSUM.end - CHECKSUM.start]);
        bytes.extend(self.name.as_bytes());
        bytes.extend(&self.content);
        let checksum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&checksum);
        bytes
    }

    /// The entry that these bytes are. Errors say why they are none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Entry, &'static str> {
        let header = Header::read(bytes, bytes.len() as u64)?;
        if checksum(bytes) != bytes[CHECKSUM] {
            return Err("its checksum is wrong");
        }
        let (name, content) = bytes[HEADER..].split_at(header.name_bytes);
        let name = std::str::from_utf8(name).map_err(|_| "its name is no text")?.to_owned();
        let Header { kind, key, arch, nvrtc, .. } = header;
        Ok(Entry { kind, key, arch, nvrtc, name, content: content.to_vec() })
    }

    /// The entry of this file, if it is one and has this key.
    pub(super) fn read(path: &Path, key: Key) -> io::Result<Found> {
        let found = match Entry::read_any(path) {
            Err(error) if is_absent(&error) => return Ok(Found::Nothing),
            other => other?,
        };
        Ok(match found {
            Ok(entry) if entry.key == key => Found::Whole(entry),
            Ok(_) => Found::Damaged("it is the entry of another key"),
            Err(reason) => Found::Damaged(reason),
        })
    }

    /// The entry of this file, or why there is none in it.
    pub(super) fn read_any(path: &Path) -> io::Result<Result<Entry, &'static str>> {
        // Opening a pipe would wait for its writer.
        if !path.metadata()?.is_file() {
            return Ok(Err("it is no regular file"));
        }
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.by_ref().take(HEADER as u64).read_to_end(&mut bytes)?;
        // Whatever lies there may be huge: the header is believed before the rest is read.
        if let Err(reason) = Header::read(&bytes, size) {
            return Ok(Err(reason));
        }
        file.take(size - bytes.len() as u64).read_to_end(&mut bytes)?;
        Ok(Entry::decode(&bytes))
    }

    /// The header of the entry in this file, or why it is none.
    pub(super) fn glance(path: &Path) -> io::Result<Result<Header, &'static str>> {
        if !path.metadata()?.is_file() {
            return Ok(Err("it is no regular file"));
        }
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.take(HEADER as u64).read_to_end(&mut bytes)?;
        Ok(Header::read(&bytes, size))
    }
}

/// What an entry says of itself before its content.
pub(super) struct Header {
    kind: Kind,
    key: Key,
    pub(super) arch: Arch,
    pub(super) nvrtc: (u32, u32),
    name_bytes: usize,
}

impl Header {
    /// The header that `bytes` begin with, of a file of `size` bytes.
    fn read(bytes: &[u8], size: u64) -> Result<Header, &'static str> {
        if bytes.len() < HEADER {
            return Err("it is too short");
        }
        if bytes[..8] != MAGIC {
            return Err("it is no entry of rowloom");
        }
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if u32_at(8) != FORMAT {
            return Err("it has another format version");
        }
        let kind = Kind::ALL.into_iter().find(|kind| kind.number() == u32_at(12));
        let kind = kind.ok_or("it holds something unknown")?;
        let key = Key(std::array::from_fn(|byte| bytes[16 + byte]));
        let name_bytes = u32_at(60);
        let content = u64::from_le_bytes(std::array::from_fn(|byte| bytes[64 + byte]));
        let whole = content.checked_add(HEADER as u64 + u64::from(name_bytes));
        if whole != Some(size) {
            return Err("it has another length than its header says");
        }
        let nvrtc = (u32_at(52), u32_at(56));
        Ok(Header { kind, key, arch: Arch(u32_at(48)), nvrtc, name_bytes: name_bytes as usize })
    }
}

/// Of all bytes but the checksum's own.
fn checksum(bytes: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..CHECKSUM.start]);
    hasher.update(&bytes[CHECKSUM.end..]);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let content = (0..=255).collect();
        let name = "gather_forward_planned".to_owned();
        Entry { kind: Kind::Cubin, key: Key([7; 32]), arch: Arch::SM_90, nvrtc: (13, 5), name, content }
    }

    #[test]
    fn entries_come_back() {
        for kind in Kind::ALL {
            let entry = Entry { kind, ..entry() };
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
        let empty = Entry { name: String::new(), content: Vec::new(), ..entry() };
        assert_eq!(Entry::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = entry().encode();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Entry::decode(&flipped).is_err(), "bit {at}");
        }
    }

    #[test]
    fn every_other_length_is_seen() {
        let bytes = entry().encode();
        for length in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(Entry::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn a_length_that_wraps_is_no_length() {
        let mut bytes = entry().encode();
        bytes[64..72].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Entry::decode(&bytes), Err("it has another length than its header says"));
    }
}
