//! `rowloom emit`: what rowloom generates for one specialisation.

use std::path::PathBuf;

use rowloom_codegen::cuda::{PlanShape, Source, Target};
use rowloom_codegen::ir::RowId;
use rowloom_codegen::{Arch, DType, IntType, SClass, Schedule, Spec, Verified, Wants, generate};

use rowloom_runtime::{Nvrtc, sources};

use crate::error::{Error, Result};
use crate::kernels::{self, RowCount};
use crate::output::Output;
use crate::sizes;

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom emit adaln_row_gather --dtype bf16 --rows 9
  rowloom emit adaln_row_gather --dtype bf16 --rows 9 --checked
  rowloom emit adaln_row_gather --dtype bf16 --rows 4096 --backward
  rowloom emit adaln_row_gather --dtype bf16 --rows 9 --plan
  rowloom emit adaln_row_gather --dtype bf16 --rows 9 --format body
  rowloom emit adaln_row_gather --dtype bf16 --rows 9 --format cubin --out gather.cubin";

/// Prints the code generated for one specialisation.
///
/// Row counts, H and types are constants in the text; the number of positions
/// only chooses between few, some and many. Without --checked the text takes a
/// plan, made by the source that --plan prints.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kernel, by its name in `rowloom list`.
    kernel: String,
    /// Element type of the tensors: f32, f16 or bf16.
    #[arg(long)]
    dtype: DType,
    /// Row counts: one number for all, or NAME=NUMBER for each.
    #[arg(long, value_delimiter = ',', required = true)]
    rows: Vec<RowCount>,
    /// S, positions of a call.
    #[arg(long, default_value_t = 32768, value_parser = sizes::positions)]
    positions: u64,
    /// Integer type of the indices: u8, i32 or i64.
    #[arg(long, default_value = "i64")]
    index: IntType,
    /// H, columns of a chunk.
    #[arg(long, default_value_t = 5376, value_parser = sizes::hidden)]
    hidden: u64,
    /// The derived backward.
    #[arg(long)]
    backward: bool,
    /// The kernel that checks its indices itself.
    #[arg(long)]
    checked: bool,
    /// The source that builds a plan: of the first row expression, or of the one with this number.
    #[arg(
        long,
        value_name = "NUMBER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0",
        conflicts_with = "checked"
    )]
    plan: Option<usize>,
    /// GPU architecture.
    #[arg(long, default_value = "sm_90")]
    arch: Arch,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Cuda)]
    format: Format,
    /// File to write instead of standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// CUDA C.
    Cuda,
    /// The part of it that is the kernel's own, to read: what it calls is named, and how it is launched.
    Body,
    /// The kernel in rowloom's own text form.
    Ir,
    /// NVIDIA's assembly, compiled by NVRTC.
    Ptx,
    /// Machine code, compiled by NVRTC.
    Cubin,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let declaration = (kernels::find(&args.kernel)?.declaration)();
    let forward = declaration.forward();
    let backward = args.backward.then(|| declaration.backward(&Wants::all(forward)));
    let kernel = backward.as_deref().unwrap_or(forward);
    let counts = kernels::counts(kernel, &args.rows)?;
    let mut spec = Spec::contiguous(kernel, args.dtype, args.index, &counts, args.hidden);
    spec.s_class = SClass::of(args.positions, kernel.order.block);
    spec.planned = !args.checked;
    spec.arch = args.arch;
    spec.check(kernel).map_err(Error::usage)?;

    let output = Output::open(args.out.as_deref())?;
    if args.format == Format::Cubin && output.is_terminal() {
        return Err(Error::usage("a cubin is no text; add --out FILE"));
    }
    if args.format == Format::Ir {
        return output.write(kernel.to_string().as_bytes());
    }
    let source = match args.plan {
        Some(number) => sources::plan(&plan_shape(kernel, &spec, number)?, None).map_err(Error::usage)?,
        None => {
            let schedule = Schedule::default_for(kernel, &spec).ok_or_else(|| {
                Error::usage(format!("the tile that {} declares leaves no schedule for these sizes", kernel.name))
            })?;
            generate(kernel, &spec, &schedule).map_err(Error::usage)?
        }
    };
    match args.format {
        Format::Cuda | Format::Ir => output.write(source.text(Target::Device).as_bytes()),
        Format::Body => output.write(source.outline().as_bytes()),
        Format::Ptx | Format::Cubin => output.write(&compile(&source, args.arch, args.format)?),
    }
}

/// What the plan of a row expression is made of.
fn plan_shape(kernel: &Verified, spec: &Spec, number: usize) -> Result<PlanShape> {
    let count = kernel.rows.len();
    if number >= count {
        let message = format!("{} has {count} row expressions; --plan takes a number below {count}", kernel.name);
        return Err(Error::usage(message));
    }
    Ok(sources::plan_shape(kernel, spec, RowId(number as u32)))
}

/// The source as NVRTC compiles it.
fn compile(source: &Source, arch: Arch, format: Format) -> Result<Vec<u8>> {
    let nvrtc = Nvrtc::find().map_err(Error::failed)?;
    if !nvrtc.architectures().contains(&arch) {
        let (major, minor) = nvrtc.version();
        let unknown = format!("NVRTC {major}.{minor} does not know {arch}");
        return Err(Error::failed(format!(
            "{unknown}; choose another --arch, or point ROWLOOM_NVRTC at another NVRTC"
        )));
    }
    if format == Format::Ptx {
        return nvrtc.ptx(source, arch).map_err(Error::failed);
    }
    Ok(nvrtc.compile(source, arch).map_err(Error::failed)?.image)
}
