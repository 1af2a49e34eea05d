//! `rowloom list`: every declared kernel.

use rowloom_runtime::registered;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::output;

/// Lists every declared kernel with its signature.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    signature: &'static str,
    docs: &'static str,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let entries =
        registered().map(|kernel| Entry { name: kernel.name, signature: kernel.signature, docs: kernel.docs });
    let text = if args.json {
        let entries: Vec<Entry> = entries.collect();
        serde_json::to_string_pretty(&entries).map_err(Error::failed)? + "\n"
    } else {
        let entry = |entry: Entry| match entry.docs {
            "" => format!("{}\n", entry.signature),
            docs => format!("{}\n    {}\n", entry.signature, docs.replace('\n', " ")),
        };
        entries.map(entry).collect::<Vec<_>>().join("\n")
    };
    output::print(text.as_bytes())
}
