//! `rowloom cache`: the folder of compiled code.

use rowloom_runtime::cache::{Damage, Disk, Usage};
use serde::Serialize;

use crate::error::{Error, Result, plain, settings};
use crate::output;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom cache stats
  rowloom cache verify --json
  rowloom cache clear
  ROWLOOM_CACHE_DIR=/data/cache rowloom cache stats";

/// Looks at, checks or empties the folder of compiled code.
///
/// It is ROWLOOM_CACHE_DIR, else `rowloom` in the user's cache folder. What is
/// damaged is never loaded, with or without `verify`: it is compiled again.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// What is in it: pieces of code and bytes, by architecture and NVRTC, and interrupted searches.
    Stats(Format),
    /// Checks every byte of every entry; exit code 1 when one is damaged.
    Verify(Format),
    /// Removes all compiled code and what interrupted searches have learnt. Records of tuning stay.
    Clear(Format),
}

#[derive(Debug, clap::Args)]
struct Format {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Stats {
    folder: String,
    limit_bytes: u64,
    #[serde(flatten)]
    usage: Usage,
}

#[derive(Serialize)]
struct Verified {
    folder: String,
    whole: u64,
    damaged: Vec<Damage>,
}

#[derive(Serialize)]
struct Cleared {
    folder: String,
    files: u64,
    bytes: u64,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let settings = settings()?;
    let Some(folder) = settings.folder else {
        return Err(Error::failed("the cache is turned off: ROWLOOM_CACHE_DIR is empty, or there is no home"));
    };
    let disk = Disk::new(&folder, settings.limit, settings.lock_timeout);
    let folder = folder.display().to_string();
    let failed = |error: std::io::Error| Error::failed(format!("cannot use the cache in {folder}: {}", plain(&error)));
    match &args.action {
        Action::Stats(format) => {
            let usage = disk.usage().map_err(failed)?;
            let stats = Stats { folder: folder.clone(), limit_bytes: settings.limit, usage };
            print(format, &stats, stats.text())
        }
        Action::Verify(format) => {
            let (whole, damaged) = disk.verify().map_err(failed)?;
            let verified = Verified { folder: folder.clone(), whole, damaged };
            print(format, &verified, verified.text())?;
            match verified.damaged.len() {
                0 => Ok(()),
                count => Err(Error::failed(format!(
                    "{count} of {} entries are damaged; each is replaced when it is next needed",
                    verified.whole + count as u64
                ))),
            }
        }
        Action::Clear(format) => {
            let (files, bytes) = disk.clear().map_err(failed)?;
            let cleared = Cleared { folder: folder.clone(), files, bytes };
            print(format, &cleared, format!("removed {files} files, {}, from {folder}\n", size(bytes)))
        }
    }
}

fn print(format: &Format, value: &impl Serialize, text: String) -> Result<()> {
    let text = if format.json { serde_json::to_string_pretty(value).map_err(Error::failed)? + "\n" } else { text };
    output::print(text.as_bytes())
}

impl Stats {
    fn text(&self) -> String {
        let Usage { entries, bytes, leftovers, searches, by_target, oldest_use_s } = &self.usage;
        let mut text = format!("{}\n", self.folder);
        text += &format!("  {entries} pieces of code, {} of {}\n", size(*bytes), size(self.limit_bytes));
        for (target, share) in by_target {
            text += &format!("  {target}: {} pieces, {}\n", share.entries, size(share.bytes));
        }
        if let Some(age) = oldest_use_s {
            text += &format!("  least recent use {} hours ago\n", age / 3600);
        }
        if *searches > 0 {
            text += &format!("  {searches} searches for schedules that were interrupted or are under way\n");
        }
        if *leftovers > 0 {
            text += &format!("  {leftovers} files of processes that work now or were killed\n");
        }
        text
    }
}

impl Verified {
    fn text(&self) -> String {
        let mut text = format!("{}: {} entries are whole\n", self.folder, self.whole);
        for Damage { path, reason } in &self.damaged {
            text += &format!("  {}: {reason}\n", path.display());
        }
        text
    }
}

/// Bytes as one reads them.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
