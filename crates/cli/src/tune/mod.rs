//! `rowloom tune`: which schedule is fastest here, and the records of it.

mod bench;
mod child;
mod exchange;
mod figure;
mod measure;
mod protocol;
mod results;
mod search;
pub mod show;
mod subjects;
mod table;
mod worker;
mod workers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rowloom_codegen::{DType, IntType};
use rowloom_op_adaln::Layout;
use rowloom_runtime::tuning::{For, Record, Records};

use crate::error::{Error, Result};
use crate::kernels::RowCount;
use crate::sizes;
pub use worker::Args as WorkerArgs;
pub use worker::run as work;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom tune adaln_row_gather --dtype bf16 --rows 9 --positions 4097,32768
  rowloom tune adaln_row_gather --dtype bf16 --rows 9 --only backward,plan --budget 30s
  rowloom tune --show
  rowloom tune --export tuned.json adaln_row_gather
  rowloom tune --import tuned.json";

/// Measures which schedule is fastest on this GPU, and keeps what it finds as records.
///
/// Every candidate writes the same bytes, which is checked on the device before
/// anything is timed. Calls use a record where GPU, driver, NVRTC and the
/// generated source are those that it names, unless ROWLOOM_TUNE=off.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("records").args(["show", "export", "import"]))]
pub struct Args {
    /// Kernel to search for, by its name in `rowloom list`; with --show and --export the kernels
    /// whose records are meant [default: all].
    kernels: Vec<String>,
    /// Element type of the tensors: f32, f16 or bf16.
    #[arg(long)]
    dtype: Option<DType>,
    /// Row counts: one number for all, or NAME=NUMBER for each.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<RowCount>,
    /// H, columns of a chunk.
    #[arg(long, default_value_t = 5376, value_parser = sizes::hidden)]
    hidden: u64,
    /// Integer type of the indices: u8, i32 or i64.
    #[arg(long, default_value = "i64")]
    index: IntType,
    /// S, positions of the calls.
    #[arg(long, value_delimiter = ',', value_parser = sizes::positions)]
    positions: Vec<u64>,
    /// How positions are packed, as in `rowloom report`: a time is the mean over them.
    #[arg(long, value_delimiter = ',', default_value = "interleaved,t2va-15s")]
    layout: Vec<Layout>,
    /// Where to measure: cuda:0, cuda:1, … [default: the first GPU].
    #[arg(long)]
    device: Option<String>,
    /// Time that the whole search may take, such as 30s or 2m.
    #[arg(long, default_value = "60s", value_parser = duration)]
    budget: Duration,
    /// Only these [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Only>,
    /// Stored type of gradients in place of the tables' own.
    #[arg(long)]
    gradient: Option<DType>,
    /// File to write every candidate to, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// What records there are, and whether they are used here.
    #[arg(long, conflicts_with_all = SEARCH)]
    show: bool,
    /// Writes records into one file, for a team to share.
    #[arg(long, value_name = "FILE", conflicts_with_all = SEARCH)]
    export: Option<PathBuf>,
    /// Takes records over from such a file.
    #[arg(long, value_name = "FILE", conflicts_with_all = SEARCH, conflicts_with = "kernels")]
    import: Option<PathBuf>,
}

/// What only a search takes.
const SEARCH: [&str; 11] =
    ["dtype", "rows", "hidden", "index", "positions", "layout", "device", "budget", "only", "gradient", "out"];

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Only {
    /// The kernel itself.
    Forward,
    /// Its derived backward, of all gradients together.
    Backward,
    /// What builds the plans of its calls.
    Plan,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    match (&args.export, &args.import) {
        (Some(file), _) => exchange::export(args, file),
        (None, Some(file)) => exchange::import(args, file),
        (None, None) if args.show => show::run(args),
        (None, None) => search::run(args),
    }
}

/// Whether a record is of one of these kernels; none means all. A plan belongs to no kernel,
/// and so to each.
fn is_named(kernels: &[String], record: &Record) -> bool {
    match &record.key {
        For::Kernel { name, .. } => kernels.is_empty() || kernels.contains(name),
        For::Plan { .. } => true,
    }
}

/// Refuses to write a result over a file of records.
fn refuse_own(records: &Records, file: &Path, option: &str) -> Result<()> {
    if records.holds(file) {
        return Err(Error::failed(format!(
            "cannot write {}: the records themselves lie in this folder; choose another {option}",
            file.display()
        )));
    }
    Ok(())
}

/// Refuses a name that neither a kernel of this program nor a record has.
fn refuse_unknown<'r>(kernels: &[String], records: impl Iterator<Item = &'r Record> + Clone) -> Result<()> {
    let has = |record: &Record, wanted: &str| matches!(&record.key, For::Kernel { name, .. } if name == wanted);
    let mut unknown = kernels.iter().filter(|name| !records.clone().any(|record| has(record, name)));
    unknown.try_for_each(|name| crate::kernels::find(name).map(drop))
}

/// `30s`, `2m`.
fn duration(word: &str) -> std::result::Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let read = |(unit, seconds): (&str, f64)| {
        let number: f64 = word.strip_suffix(unit)?.parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok().filter(|time| !time.is_zero())
    };
    units.into_iter().find_map(read).ok_or_else(|| format!("`{word}` is no time; write 30s or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for word in ["30", "0s", "-1s", "s", "1h", "infs", "1e300m"] {
            assert_eq!(duration(word), Err(format!("`{word}` is no time; write 30s or 2m")));
        }
    }
}
