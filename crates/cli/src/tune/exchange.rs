//! `rowloom tune --export` and `--import`: records in one file that a team shares.

use std::path::Path;

use rowloom_runtime::cache::Damage;
use rowloom_runtime::tuning::{Added, Machine, Of, Record, Records, Sheet, one_line};
use serde::Serialize;

use super::Args;
use super::search::note;
use super::show::{Here, in_words, machines, reason};
use crate::error::{Error, Result, settings};
use crate::output::{self, Output};

/// Records in the user's cache folder, which alone are exchanged.
fn of_user() -> Result<Records> {
    let settings = settings()?;
    if settings.folder.is_none() {
        return Err(Error::failed("the cache is turned off: ROWLOOM_CACHE_DIR is empty, or there is no home"));
    }
    Ok(Records::over(None, settings.folder.as_deref()))
}

#[derive(Serialize)]
struct Exported<'a> {
    file: &'a Path,
    records: usize,
}

/// Writes the records of the named kernels, or all, into one file.
pub fn export(args: &Args, file: &Path) -> Result<()> {
    let records = of_user()?;
    let output = Output::open_named(file, &[], "--export")?;
    if let Output::Through(_) = output {
        return Err(Error::failed(format!(
            "cannot write {}: it is no regular file; choose another --export",
            file.display()
        )));
    }
    super::refuse_own(&records, output.path().unwrap_or(file), "--export")?;
    let (kept, damaged) = records.all();
    let there_are_none = kept.is_empty();
    super::refuse_unknown(&args.kernels, kept.iter().map(|kept| &*kept.record))?;
    if let Some(Damage { path, reason }) = damaged.first() {
        // A team would miss what is in it.
        return Err(Error::failed(format!(
            "{} is no file of records: {}; move it away",
            path.display(),
            one_line(reason)
        )));
    }
    let records = kept.into_iter().map(|kept| kept.record).filter(|record| super::is_named(&args.kernels, record));
    // Nobody would import them.
    let records = records.filter(|record| match record.check() {
        Ok(()) => true,
        Err(why) => {
            note(&one_line(&format!("the record of {} is left out: {why}", record.key)));
            false
        }
    });
    let records: Vec<_> = records.collect();
    if records.is_empty() {
        let none = match there_are_none {
            true => "there are no records yet; `rowloom tune KERNEL` makes some",
            false => "none of the records can be exported; `rowloom tune --show` lists them",
        };
        return Err(Error::failed(none));
    }
    let exported = Exported { file, records: records.len() };
    let text = Sheet::new(Of::Export, records).text().map_err(Error::failed)?;
    output.write(text.as_bytes())?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&exported).map_err(Error::failed)? + "\n",
        false => format!("{} records are in {}\n", exported.records, file.display()),
    };
    output::print(text.as_bytes())
}

#[derive(Serialize)]
struct Imported {
    what: String,
    product: String,
    /// `new`, `same`, `replaced` or `kept`.
    became: &'static str,
    /// Why the one that was there is kept: it is used here, and this one would not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Takes over every record of a file, but for those in whose place there is one that is used here when
/// they would not be.
pub fn import(args: &Args, file: &Path) -> Result<()> {
    let refused = |reason: String| Error::failed(format!("cannot import {}: {}", file.display(), one_line(&reason)));
    let sheet = Sheet::read(file).map_err(refused)?;
    let sheet = sheet.ok_or_else(|| refused("there is no such file".to_owned()))?;
    for record in &sheet.records {
        record.check().map_err(|why| refused(format!("the record of {}: {why}", record.key)))?;
    }
    let records = of_user()?;
    let machines = machines(sheet.records.iter().map(|record| &**record));
    let machines: Vec<Machine<'_>> = machines.iter().map(Here::machine).collect();
    let kept = |record: &Record| {
        let usable = |record: &Record| reason(record, &machines).is_none();
        let there = records.kept(&record.key, &record.provenance.product);
        there.filter(|there| **there != *record && usable(there)).and_then(|_| reason(record, &machines))
    };
    let kept: Vec<Option<String>> = sheet.records.iter().map(|record| kept(record)).collect();
    let taken = sheet.records.iter().zip(&kept).filter(|(_, kept)| kept.is_none());
    let taken: Vec<_> = taken.map(|(record, _)| record.clone()).collect();
    let mut added = records.add_all(&taken).map_err(Error::failed)?.into_iter();
    let imported = sheet.records.iter().zip(kept).map(|(record, reason)| Imported {
        what: in_words(record),
        product: record.provenance.product.clone(),
        became: match reason.is_none().then(|| added.next()).flatten() {
            Some(Added::New) => "new",
            Some(Added::Same) => "same",
            Some(Added::Replaced(_)) => "replaced",
            None => "kept",
        },
        reason,
    });
    let imported: Vec<Imported> = imported.collect();
    let text = match args.json {
        true => serde_json::to_string_pretty(&imported).map_err(Error::failed)? + "\n",
        false => imported.iter().map(Imported::line).collect(),
    };
    output::print(text.as_bytes())
}

impl Imported {
    fn line(&self) -> String {
        let reason = self.reason.as_ref().map_or(String::new(), |why| format!("; the new one is not used here: {why}"));
        one_line(&format!("{:<9} {}, on {}{reason}", self.became, self.what, self.product)) + "\n"
    }
}
