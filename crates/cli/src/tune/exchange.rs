//! `rowloom tune --export` and `--import`: records in one file that a team shares.

use std::path::Path;

use rowloom_runtime::cache::{Damage, Settings};
use rowloom_runtime::tuning::{Added, Of, Records, Sheet};
use serde::Serialize;

use super::Args;
use crate::error::{Error, Result};
use crate::output::{self, Output};

/// Records in the user's cache folder, which alone are exchanged.
fn of_user() -> Result<Records> {
    let (settings, faults) = Settings::from_environment();
    if let Some(fault) = faults.into_iter().next() {
        return Err(Error::usage(fault));
    }
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
    let output = Output::open(Some(file))?;
    let (kept, damaged) = of_user()?.all();
    if let Some(Damage { path, reason }) = damaged.first() {
        // A team would miss what is in it.
        return Err(Error::failed(format!("{} is no file of records: {reason}; move it away", path.display())));
    }
    let records = kept.into_iter().map(|kept| kept.record).filter(|record| super::is_named(&args.kernels, record));
    let records: Vec<_> = records.collect();
    if records.is_empty() {
        return Err(Error::failed("there are no such records; `rowloom tune --show` lists those there are"));
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
    /// `new`, `same` or `replaced`.
    became: &'static str,
}

/// Takes over every record of a file.
pub fn import(args: &Args, file: &Path) -> Result<()> {
    let refused = |reason: String| Error::failed(format!("cannot import {}: {reason}", file.display()));
    let sheet = Sheet::read(file).map_err(refused)?;
    let sheet = sheet.ok_or_else(|| refused("there is no such file".to_owned()))?;
    let added = of_user()?.add_all(&sheet.records).map_err(Error::failed)?;
    let imported = sheet.records.iter().zip(&added).map(|(record, added)| Imported {
        what: record.key.to_string(),
        product: record.provenance.product.clone(),
        became: match added {
            Added::New => "new",
            Added::Same => "same",
            Added::Replaced(_) => "replaced",
        },
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
        format!("{:<9} {}, on {}\n", self.became, self.what, self.product)
    }
}
