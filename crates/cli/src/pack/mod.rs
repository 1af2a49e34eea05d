//! `rowloom pack`: machine code made ahead of time.

mod calls;
mod tuned;

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use rowloom_codegen::{Arch, DType, IntType};
use rowloom_runtime::Nvrtc;
use rowloom_runtime::cache::{PackCode, PackWriter};
use rowloom_runtime::tuning::Records;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::kernels::{self, RowCount};
use crate::output;
use crate::sizes;
pub use calls::wants;
use calls::{Pieces, Sizes};
use tuned::Tuned;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom pack adaln_row_gather --dtype bf16 --rows 9 --arch sm_90,sm_100 --out pack
  rowloom pack adaln_row_gather,row_gather --dtype bf16,f32 --rows 9 --index i64,i32 --arch sm_90 --out pack
  rowloom pack adaln_row_gather --dtype bf16 --rows 9 --gradient f32 --arch sm_90 --positions 32768 --out pack
  ROWLOOM_PACK=pack ROWLOOM_JIT=off your-program";

/// Compiles ahead of time what calls will need, into a folder for ROWLOOM_PACK.
///
/// With such a folder a program needs no NVRTC and writes nothing. It holds
/// forward, planned and checked, and backward, with f32 and f64 sums, for all
/// gradients together and for each alone, and what builds their plans: for
/// contiguous tensors, and for every number of positions unless --positions
/// names some. Records of tuning for these calls go with it, and the code of
/// their winners. A pack that is there already keeps what it has.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernels, by their names in `rowloom list`.
    #[arg(value_delimiter = ',', required = true)]
    kernels: Vec<String>,
    /// Element types of the tensors: f32, f16 or bf16.
    #[arg(long, value_delimiter = ',', required = true)]
    dtype: Vec<DType>,
    /// Row counts: one number for all, or NAME=NUMBER for each.
    #[arg(long, value_delimiter = ',', required = true)]
    rows: Vec<RowCount>,
    /// H, columns of a chunk.
    #[arg(long, value_delimiter = ',', default_value = "5376", value_parser = sizes::hidden)]
    hidden: Vec<u64>,
    /// Integer types of the indices: u8, i32 or i64.
    #[arg(long, value_delimiter = ',', default_value = "i64")]
    index: Vec<IntType>,
    /// Gradients stored in this type too, besides the tables' own.
    #[arg(long)]
    gradient: Option<DType>,
    /// GPU architectures.
    #[arg(long, value_delimiter = ',', required = true)]
    arch: Vec<Arch>,
    /// S, positions of the calls [default: every S].
    #[arg(long, value_delimiter = ',', value_parser = sizes::positions)]
    positions: Vec<u64>,
    /// Folder to write.
    #[arg(long)]
    out: PathBuf,
    /// What was written, as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Written {
    folder: PathBuf,
    added: usize,
    added_bytes: u64,
    pieces: usize,
    nvrtc: String,
    /// Records of tuning that were added.
    records: usize,
    /// Why others were not.
    left_out: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let mut pieces = pieces(args)?;
    let writer = PackWriter::open(&args.out).map_err(Error::failed)?;
    let nvrtc = Nvrtc::find().map_err(Error::failed)?;
    let Tuned { records, left_out } = tuned::collect(&mut pieces, &args.positions, &nvrtc.compiler().to_string())?;
    let bar = ProgressBar::new(pieces.list.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {bar:30} {msg}") {
        bar.set_style(style);
    }
    let compile = |piece: &calls::Piece| {
        let code = PackCode::compile(nvrtc, &piece.source, piece.arch, piece.sizes.clone()).map_err(Error::failed);
        bar.set_message(piece.source.name.clone());
        bar.inc(1);
        code
    };
    let code = pieces.list.par_iter().map(compile).collect::<Result<Vec<PackCode>>>()?;
    bar.finish_and_clear();
    let pack = writer.write(&code).map_err(Error::failed)?;
    if !records.is_empty() {
        // A record comes after the code that it wants.
        Records::over(None, Some(&args.out)).add_all(&records).map_err(Error::failed)?;
    }
    let written = Written {
        folder: args.out.clone(),
        added: code.len(),
        added_bytes: code.iter().map(PackCode::bytes).sum(),
        pieces: pack.manifest().code.len(),
        nvrtc: nvrtc.compiler().to_string(),
        records: records.len(),
        left_out,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&written).map_err(Error::failed)? + "\n"
    } else {
        let Written { folder, added, added_bytes, pieces, nvrtc, records, left_out } = written;
        let (folder, kib) = (folder.display(), added_bytes.div_ceil(1024));
        let records = if records == 0 { String::new() } else { format!("{records} records of tuning\n") };
        let left_out: String = left_out.iter().map(|why| format!("{why}\n")).collect();
        format!(
            "{added} pieces of code, {kib} KiB, by NVRTC {nvrtc}; {pieces} are in {folder}\n{records}{left_out}\
             Use it: ROWLOOM_PACK={folder}, and ROWLOOM_JIT=off where nothing else may be compiled\n"
        )
    };
    output::print(text.as_bytes())
}

/// Every source that is wanted.
fn pieces(args: &Args) -> Result<Pieces> {
    let mut pieces = Pieces::default();
    let gradients: Vec<Option<DType>> = [None].into_iter().chain(args.gradient.map(Some)).collect();
    for kernel in &args.kernels {
        let declaration = (kernels::find(kernel)?.declaration)();
        for &arch in &args.arch {
            for (&dtype, &int) in args.dtype.iter().flat_map(|dtype| args.index.iter().map(move |int| (dtype, int))) {
                for (&hidden, &gradient) in
                    args.hidden.iter().flat_map(|hidden| gradients.iter().map(move |gradient| (hidden, gradient)))
                {
                    let positions = &args.positions;
                    let sizes = Sizes { dtype, int, rows: &args.rows, hidden, gradient, arch, positions };
                    pieces.add(declaration, &sizes)?;
                }
            }
        }
    }
    Ok(pieces)
}
