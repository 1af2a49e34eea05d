//! `rowloom report`: the published protocol, in the published schema.

mod accuracy;
mod calls;
mod case;
mod clock;
pub mod environment;
mod figures;
mod framework;
mod host;
mod implementation;
mod inputs;
mod invariance;
mod latency;
mod measure;
mod memory;
pub mod number;
mod ours;
mod placed;
mod planned;
mod protocol;
mod published;
mod schema;
pub mod stand_in;
mod summary;
pub mod table;
mod table_gradient;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use rowloom_codegen::{DType, IntType, Spec, Wants};
use rowloom_op_adaln::Layout;
use rowloom_runtime::{Declaration, Device};

use crate::error::{Error, Result};
use crate::kernels::{self, RowCount};
use crate::output::{self, Output};
use crate::sizes;

use case::Case;
pub use inputs::index;
use measure::Measurement;
use protocol::Protocol;
use published::Published;
use schema::Report;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom report adaln_row_gather --quick --out report.json
  rowloom report adaln_row_gather --device cuda:0 --out report.json
  rowloom report adaln_row_gather --layout t2va-15s --positions 4097,32768 --out report.json";

/// Measures batch invariance, accuracy and speed, as published.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel, by its name in `rowloom list`.
    kernel: String,
    /// Where it runs: cpu, cuda:0 or emulated.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Small batches and few runs: under two minutes on two cores.
    #[arg(long)]
    quick: bool,
    /// How positions are packed: interleaved, block, t2va-4s, t2va-15s, fl2va, ref2va, or a piece such as ref2va:3/8.
    #[arg(long, default_value = "interleaved")]
    layout: Layout,
    /// S of accuracy and latency [default: 4097,32768, on a GPU 131072 too; 257,4097 with --quick].
    #[arg(long, value_delimiter = ',', value_parser = sizes::positions)]
    positions: Vec<u64>,
    /// Element type of the tensors.
    #[arg(long, default_value = "bf16")]
    dtype: DType,
    /// Row counts: one number for all, or NAME=NUMBER for each.
    #[arg(long, value_delimiter = ',', default_value = "9")]
    rows: Vec<RowCount>,
    /// H, columns of a chunk.
    #[arg(long, default_value_t = 5376, value_parser = sizes::hidden)]
    hidden: u64,
    /// File to write; figures lie beside it: NAME-speed.png, NAME-accuracy.png, and as .svg.
    #[arg(long)]
    out: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernels::find(&args.kernel)?;
    let declaration = (kernel.declaration)();
    let (case, spec) = case(declaration, args)?;
    let device: Device = args.device.parse().map_err(|error| {
        if matches!(error, rowloom_runtime::Error::UnknownDevice(_)) {
            return Error::usage(error);
        }
        Error::failed(error)
    })?;
    let output = Output::open_with(&args.out, &figures::FILES)?;
    let published = Published::of(kernel.name);
    let protocol = protocol(args, &device);
    memory::check(&case, &spec, &device, &protocol.positions)?;
    let measured = measure::measure(declaration, &case, &device, &protocol)?;
    let (rowloom_commit, tracked_tree_dirty) = environment::commit();
    let text = |key| published.as_ref().and_then(|published| published.text(key));
    let report = Report {
        kind: text("kind").unwrap_or_else(|| "rowloom_report".to_owned()),
        rfc: text("rfc"),
        op: kernel.name.to_owned(),
        rl_kernel_commit: None,
        rowloom_commit,
        tracked_tree_dirty,
        environment: environment::environment(&device, args.layout.to_string(), measured.ceilings),
        quick: args.quick,
        protocol: measured.record,
        results: measured.results,
    };
    let report = serde_json::to_value(&report).map_err(Error::failed)?;
    let mut text = serde_json::to_string_pretty(&report).map_err(Error::failed)?;
    text.push('\n');
    let figures = figures::figures(&report, published.as_ref())?;
    let beside: Vec<(String, &[u8])> = figures
        .iter()
        .flat_map(|figure| {
            [(format!("{}.png", figure.name), &*figure.png), (format!("{}.svg", figure.name), &*figure.svg)]
        })
        .collect();
    output.write_with(text.as_bytes(), &beside)?;
    output::print(summary::summary(&report, published.as_ref()).as_bytes())
}

/// The sizes of a report, refused with the reason when the kernel cannot have them.
fn case(declaration: &Declaration, args: &Args) -> Result<(Case, Spec)> {
    let forward = declaration.forward();
    let counts = kernels::counts(forward, &args.rows)?;
    let spec = Spec::contiguous(forward, args.dtype, IntType::I64, &counts, args.hidden);
    spec.check(forward).map_err(Error::usage)?;
    let case = Case {
        forward: forward.clone().into(),
        backward: declaration.backward(&Wants::all(forward)),
        dtype: args.dtype,
        counts,
        hidden: args.hidden,
        layout: args.layout,
    };
    Ok((case, spec))
}

fn protocol(args: &Args, device: &Device) -> Protocol {
    let mut positions = args.positions.clone();
    positions.sort_unstable();
    positions.dedup();
    if positions.is_empty() {
        let on_gpu = clock::is_gpu(device);
        positions = match (args.quick, args.layout.positions()) {
            (true, _) => vec![257, 4097],
            (false, Some(video)) if on_gpu => vec![video],
            (false, None) if on_gpu => vec![4097, 32768, 131_072],
            (false, _) => vec![4097, 32768],
        };
    }
    if args.quick { Protocol::quick(positions) } else { Protocol::published(positions) }
}
