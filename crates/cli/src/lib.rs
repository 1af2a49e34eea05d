//! The rowloom command.
//!
//! A crate of kernels of your own has the same command over them:
//!
//! ```no_run
//! use rowloom_op_adaln as _; // the crate that declares them
//!
//! fn main() -> std::process::ExitCode {
//!     rowloom_cli::main()
//! }
//! ```
//!
//! Exit codes: 0, 1 when what was asked failed, 2 when it made no sense. An
//! error is one sentence on standard error.

mod cache;
mod compare;
mod doctor;
mod drawing;
mod emit;
mod error;
mod kernels;
mod list;
mod output;
mod pack;
mod report;
mod selftest;
mod sizes;
mod tune;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};

use error::{Error, Result};
use rowloom_codegen::Subject;
use rowloom_runtime::tuning::Generate;

const EXAMPLES: &str = "Examples:
  rowloom list
  rowloom emit adaln_row_gather --dtype bf16 --rows 9
  rowloom emit adaln_row_gather --dtype bf16 --rows 9 --backward --format ir
  rowloom report adaln_row_gather --quick --out report.json
  rowloom compare report.json other.json
  rowloom tune adaln_row_gather --dtype bf16 --rows 9 --positions 32768
  rowloom pack adaln_row_gather --dtype bf16 --rows 9 --arch sm_90 --out pack
  rowloom cache stats
  rowloom selftest
  rowloom doctor";

/// Declare a row gather once; read its CUDA C and measure it.
#[derive(Debug, Parser)]
#[command(name = "rowloom", version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    #[command(after_help = emit::EXAMPLES)]
    Emit(emit::Args),
    #[command(after_help = report::EXAMPLES)]
    Report(report::Args),
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Args),
    #[command(after_help = selftest::EXAMPLES)]
    Selftest(selftest::Args),
    #[command(after_help = tune::EXAMPLES)]
    Tune(tune::Args),
    #[command(hide = true)]
    TuneWorker(tune::WorkerArgs),
    #[command(after_help = pack::EXAMPLES)]
    Pack(pack::Args),
    #[command(after_help = cache::EXAMPLES)]
    Cache(cache::Args),
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
}

/// The command over every kernel that the program links.
pub fn main() -> ExitCode {
    main_generating(Subject::generate)
}

/// The same, whose tuner runs what `generate` makes of a candidate. For tests of sources that are
/// not as they should be.
#[doc(hidden)]
pub fn main_generating(generate: Generate) -> ExitCode {
    let Err(error) = run(generate) else {
        return ExitCode::SUCCESS;
    };
    match &error {
        Error::Closed => {}
        Error::Usage(message) | Error::Failed(message) => {
            // Nobody may be there to read it; the exit code still tells.
            let _ = writeln!(std::io::stderr(), "error: {message}");
        }
    }
    error.exit_code()
}

fn run(generate: Generate) -> Result<()> {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    match args.command {
        Command::List(args) => list::run(&args),
        Command::Emit(args) => emit::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::TuneWorker(args) => tune::work(&args, generate),
        Command::Pack(args) => pack::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    }
}

/// What the parser has to say: help on standard output, or one sentence.
fn refuse(error: &clap::Error) -> Result<()> {
    let kind = error.kind();
    let (command, path) = named(std::env::args_os().skip(1));
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return output::print(error.to_string().as_bytes());
    }
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand || kind == ErrorKind::MissingSubcommand {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.map(clap::Command::get_name);
        let names: Vec<String> = names.map(|name| format!("`{path} {name}`")).collect();
        return Err(Error::usage(format!("no command was given; write {}, or see `{path} --help`", names.join(", "))));
    }
    let text = error.to_string();
    // Details and usage follow after an empty line; a list of arguments before it.
    let said = text.split("\n\n").next().unwrap_or(&text);
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let sentence = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(Error::usage(format!("{sentence}; see `{path} --help`")))
}

/// The command that the arguments begin with, and its words.
fn named(arguments: impl Iterator<Item = OsString>) -> (clap::Command, String) {
    let (mut command, mut path) = (Args::command(), "rowloom".to_owned());
    for argument in arguments {
        let Some(below) = command.find_subcommand(&argument) else { break };
        path = format!("{path} {}", below.get_name());
        command = below.clone();
    }
    (command, path)
}
