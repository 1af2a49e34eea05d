//! Files of records.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{For, Record};
use crate::files;

/// Version of the format.
const FORMAT: u32 = 1;

/// Most bytes that are read, so that a file that is none of records holds up no launch: hundreds of
/// records.
const LIMIT: u64 = 32 << 20;

/// Longest part of a file's name that is not cut.
const LONGEST: usize = 100;

/// Records in one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// Version of this file.
    format: u32,
    /// What it has records of.
    pub of: Of,
    /// The records, none with the key and product of another.
    pub records: Vec<Arc<Record>>,
}

/// What a file has records of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Of {
    /// A kernel, both directions, on one product.
    Kernel {
        /// The kernel's name.
        name: String,
        /// The GPU's product name.
        product: String,
    },
    /// Plans, on one product.
    Plan {
        /// The GPU's product name.
        product: String,
    },
    /// Whatever was exported.
    Export,
}

/// The part of a file that every version has.
#[derive(Deserialize)]
struct Version {
    format: Option<serde_json::Value>,
}

impl Of {
    /// The file that a record belongs to.
    pub fn record(record: &Record) -> Of {
        let product = record.provenance.product.clone();
        match &record.key {
            For::Kernel { name, .. } => Of::Kernel { name: name.clone(), product },
            For::Plan { .. } => Of::Plan { product },
        }
    }

    /// Its file's name in a folder of records. No two have the same: `-` stands in no kernel's part.
    pub(super) fn file_name(&self) -> String {
        let kernel = |letter: char| (letter.is_ascii_alphanumeric() || letter == '_').then_some(letter);
        let product = |letter: char| match letter {
            ' ' => Some('_'),
            '-' | '.' => Some(letter),
            _ => letter.is_ascii_alphanumeric().then_some(letter),
        };
        match self {
            Of::Kernel { name, product: on } => format!("kernel-{}-{}.json", safe(name, kernel), safe(on, product)),
            Of::Plan { product: on } => format!("plan-{}.json", safe(on, product)),
            Of::Export => "export.json".to_owned(),
        }
    }
}

/// A word as a part of a file's name: each letter as it is written plainly, else as its code.
fn safe(word: &str, plain: impl Fn(char) -> Option<char>) -> String {
    let mut safe = String::new();
    for letter in word.chars() {
        match plain(letter) {
            Some(plain) => safe.push(plain),
            None => safe += &format!("%{:x}.", u32::from(letter)),
        }
    }
    if safe.len() > LONGEST {
        safe.truncate(LONGEST - 20);
        // Longer than what is not cut: the two never meet.
        safe += &format!("%{}", &blake3::hash(word.as_bytes()).to_hex()[..32]);
    }
    safe
}

impl Sheet {
    /// One of these records.
    pub fn new(of: Of, records: Vec<Arc<Record>>) -> Sheet {
        Sheet { format: FORMAT, of, records }
    }

    /// What is in a file; `None` where there is no such file.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(path: &Path) -> Result<Option<Sheet>, String> {
        let Some(text) = files::read_bounded(path, LIMIT)? else { return Ok(None) };
        // The version first: a later one may have other fields.
        let foreign = || "it is no file of records".to_owned();
        let version: Version = serde_json::from_slice(&text)
            .map_err(|error| if error.is_data() { foreign() } else { error.to_string() })?;
        match version.format {
            Some(format) if format == FORMAT => {}
            Some(format) => return Err(format!("its format is {format}, and this rowloom reads {FORMAT}")),
            None => return Err(foreign()),
        }
        let sheet: Sheet = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        match sheet.records.iter().find(|record| sheet.of != Of::Export && Of::record(record) != sheet.of) {
            Some(foreign) => Err(format!("it holds a record of something else: {}", foreign.key)),
            None => Ok(Some(sheet)),
        }
    }

    /// Its text.
    ///
    /// # Errors
    /// When a number of it is none, or it is larger than what is read.
    pub fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())? + "\n";
        if text.len() as u64 > LIMIT {
            return Err(format!("its records would be more than {} MiB", LIMIT >> 20));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_have_the_same_file() {
        let words = ["a", "a_b", "a b", "a-b", "a%5f.b", "a%2d.b", "", "-", "../a", "a/b", "a.b", "plan", "größe", "A"];
        let long = ["x".repeat(99), "x".repeat(100), "x".repeat(101), "x".repeat(102), " ".repeat(300)];
        let words: Vec<&str> = words.into_iter().chain(long.iter().map(String::as_str)).collect();
        let owned = |word: &&str| (*word).to_owned();
        let mut of: Vec<Of> = words.iter().map(|product| Of::Plan { product: owned(product) }).collect();
        for name in &words {
            of.extend(words.iter().map(|product| Of::Kernel { name: owned(name), product: owned(product) }));
        }
        let names: HashSet<String> = of.iter().map(Of::file_name).collect();
        assert_eq!(names.len(), of.len());
        for name in names {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.%".contains(letter);
            assert!(name.len() < 250 && name.chars().all(plain), "{name}");
        }
        let of = Of::Kernel { name: "adaln_row_gather".to_owned(), product: "NVIDIA H200".to_owned() };
        assert_eq!(of.file_name(), "kernel-adaln_row_gather-NVIDIA_H200.json");
        assert_eq!(Of::Plan { product: "emulated".to_owned() }.file_name(), "plan-emulated.json");
    }
}
