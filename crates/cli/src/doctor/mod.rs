//! `rowloom doctor`: what this machine can run, and what is missing.

mod findings;
mod text;

use crate::error::{Error, Result};
use crate::output;
use findings::Findings;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom doctor
  rowloom doctor --json
  ROWLOOM_PACK=pack ROWLOOM_JIT=off rowloom doctor";

/// Says what was found: GPUs, driver, NVRTC, cache, pack, records, compiler; what is
/// missing and how to get it.
///
/// A CPU runs everything, so a machine without a GPU is no fault. Exit code 1
/// says that something which an environment variable asks for is broken.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let findings = Findings::gather();
    let text = if args.json {
        serde_json::to_string_pretty(&findings).map_err(Error::failed)? + "\n"
    } else {
        text::text(&findings)
    };
    output::print(text.as_bytes())?;
    match &findings.broken[..] {
        [] => Ok(()),
        broken => Err(Error::failed(broken.join("; "))),
    }
}
