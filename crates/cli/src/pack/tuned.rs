//! The records of tuning that go into a pack, with the code of their winners.

use std::collections::HashMap;
use std::sync::Arc;

use rowloom_codegen::{Arch, Source, Subject};
use rowloom_runtime::cache::Damage;
use rowloom_runtime::tuning::{For, Record, Records, one_line};

use super::calls::Pieces;
use crate::error::{Result, settings};

/// Records for a pack, and in a sentence each why others stay behind.
#[derive(Default)]
pub struct Tuned {
    pub records: Vec<Arc<Record>>,
    pub left_out: Vec<String>,
}

/// The user's records of what is packed, for calls at one of `positions`, or any where none is
/// named. The sources of their winners join the pieces. `nvrtc` is the version that compiles.
pub fn collect(pieces: &mut Pieces, positions: &[u64], nvrtc: &str) -> Result<Tuned> {
    let settings = settings()?;
    let mut tuned = Tuned::default();
    if !settings.tuned {
        return Ok(tuned);
    }
    let (kept, damaged) = Records::over(None, settings.folder.as_deref()).all();
    let damaged =
        damaged.iter().map(|Damage { path, reason }| one_line(&format!("{} is left out: {reason}", path.display())));
    tuned.left_out.extend(damaged);
    let packed = std::mem::take(&mut pieces.subjects);
    let packed: HashMap<For, (Subject, Arch)> =
        packed.into_iter().map(|(subject, arch)| (For::of(&subject, arch, 1), (subject, arch))).collect();
    for record in kept.into_iter().map(|kept| kept.record) {
        let bucket = record.key.positions();
        let Some((subject, arch)) = packed.get(&record.key.at(1)) else { continue };
        if !positions.is_empty() && !positions.iter().any(|&positions| bucket.holds(positions)) {
            continue;
        }
        match winner(&record, subject, nvrtc) {
            Ok(source) => {
                pieces.push(source, *arch, format!("{}, tuned", record.key));
                tuned.records.push(record);
            }
            Err(why) => {
                let product = &record.provenance.product;
                let what = record.key.in_words(For::sums(subject));
                tuned.left_out.push(one_line(&format!("the record of {what} on {product} is left out: {why}")));
            }
        }
    }
    Ok(tuned)
}

/// The source of a record's winner, if code of it that this NVRTC makes is what was measured.
fn winner(record: &Record, subject: &Subject, nvrtc: &str) -> std::result::Result<Source, String> {
    record.check().map_err(|why| why.to_string())?;
    let made = record.provenance.nvrtc.as_deref().unwrap_or("none");
    if made != nvrtc {
        return Err(format!("it was made with NVRTC {made}, and this is {nvrtc}"));
    }
    let source = subject.generate(&record.winner).map_err(|fault| fault.to_string())?;
    if source.hash().to_string() != record.provenance.source {
        return Err("its schedule generates another source now".to_owned());
    }
    Ok(source)
}
