//! `rowloom report`: the published protocol, in the published schema.

mod accuracy;
mod ceilings;
mod environment;
mod host;
mod implementation;
mod inputs;
mod invariance;
mod latency;
mod ours;
mod protocol;
mod published;
mod schema;
mod stand_in;
mod summary;
mod table_gradient;

use std::ops::Range;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, DType, IntType, Spec, Wants};
use rowloom_op_adaln::{Layout, random};
use rowloom_runtime::{Declaration, Device, Registered};

use crate::error::{Error, Result};
use crate::kernels::{self, RowCount};
use crate::output::{self, Output};

use accuracy::accuracy;
use implementation::Implementation;
use inputs::Case;
use latency::Clock;
use protocol::Protocol;
use published::Published;
use schema::{AccuracyLatency, BatchInvariance, Measured, Outcome, Record, Report, Results};

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
    /// Small batches and few runs: about a minute on two cores.
    #[arg(long)]
    quick: bool,
    /// How positions are packed: interleaved, block, t2va-4s, t2va-15s, fl2va, ref2va, or a piece such as ref2va:3/8.
    #[arg(long, default_value = "interleaved")]
    layout: Layout,
    /// S of accuracy and latency [default: 4097,32768, on a GPU 131072 too; 257,4097 with --quick].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    positions: Vec<u64>,
    /// Element type of the tensors.
    #[arg(long, default_value = "bf16")]
    dtype: DType,
    /// Row counts: one number for all, or NAME=NUMBER for each.
    #[arg(long, value_delimiter = ',', default_value = "9")]
    rows: Vec<RowCount>,
    /// H, columns of a chunk.
    #[arg(long, default_value_t = 5376, value_parser = clap::value_parser!(u64).range(1..))]
    hidden: u64,
    /// File to write.
    #[arg(long)]
    out: PathBuf,
}

/// Bytes of position tensors in memory at once on a CPU, by which H is cut into slices.
const BYTES_AT_ONCE: u64 = 320 << 20;

/// One implementation being measured on one case.
pub struct Measurement<'m> {
    /// What is measured.
    case: &'m Case,
    /// Who is measured.
    implementation: &'m dyn Implementation,
    /// Whether H may be cut into slices to keep memory small.
    sliced: bool,
    /// Told of every comparison.
    progress: &'m ProgressBar,
}

impl Measurement<'_> {
    /// H in slices small enough for `positions` positions.
    fn slices(&self, positions: u64) -> Vec<Range<u64>> {
        self.case
            .slices(columns_at_once(self.case, self.sliced, positions))
    }
}

fn columns_at_once(case: &Case, sliced: bool, positions: u64) -> u64 {
    if !sliced {
        return case.hidden;
    }
    let bytes = case.bytes_per_position_and_column() * positions;
    (BYTES_AT_ONCE / bytes.max(1)).clamp(1, case.hidden)
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernels::find(&args.kernel)?;
    let declaration = (kernel.declaration)();
    let case = case(declaration, args)?;
    let device: Device = args.device.parse().map_err(|error| match error {
        rowloom_runtime::Error::UnknownDevice(_) => Error::usage(error),
        error => Error::failed(error),
    })?;
    let output = Output::open(Some(&args.out))?;
    let published = Published::of(kernel.name);
    let protocol = protocol(args, &device);
    let report = measure(
        kernel,
        declaration,
        &case,
        &device,
        &protocol,
        args,
        published.as_ref(),
    )?;
    let report = serde_json::to_value(&report).map_err(Error::failed)?;
    let mut text = serde_json::to_string_pretty(&report).map_err(Error::failed)?;
    text.push('\n');
    output.write(text.as_bytes())?;
    output::print(summary::summary(&report, published.as_ref()).as_bytes())
}

/// The sizes of a report, refused with the reason when the kernel cannot have them.
fn case(declaration: &Declaration, args: &Args) -> Result<Case> {
    let forward = declaration.forward();
    let counts = kernels::counts(forward, &args.rows)?;
    let spec = Spec::contiguous(forward, args.dtype, IntType::I64, &counts, args.hidden);
    spec.check(forward).map_err(Error::usage)?;
    Ok(Case {
        forward: forward.clone().into(),
        backward: declaration.backward(&Wants::all(forward)),
        dtype: args.dtype,
        counts,
        hidden: args.hidden,
        layout: args.layout,
    })
}

fn protocol(args: &Args, device: &Device) -> Protocol {
    let mut positions = args.positions.clone();
    positions.sort_unstable();
    positions.dedup();
    if positions.is_empty() {
        let on_gpu = device.name().starts_with("cuda");
        positions = match (args.quick, args.layout.positions()) {
            (true, _) => vec![257, 4097],
            (false, Some(video)) if on_gpu => vec![video],
            (false, None) if on_gpu => vec![4097, 32768, 131_072],
            (false, _) => vec![4097, 32768],
        };
    }
    if args.quick {
        Protocol::quick(positions)
    } else {
        Protocol::published(positions)
    }
}

fn measure(
    kernel: &Registered,
    declaration: &Declaration,
    case: &Case,
    device: &Device,
    protocol: &Protocol,
    args: &Args,
    published: Option<&Published>,
) -> Result<Report> {
    let sliced = !device.name().starts_with("cuda");
    let implementations = implementations(declaration, case, device)?;
    let bar = ProgressBar::new(0);
    bar.set_style(
        ProgressStyle::with_template("{msg:>24} {wide_bar} {percent:>3} % {eta:>5}")
            .map_err(Error::failed)?,
    );
    let measurements: Vec<Measurement<'_>> = implementations
        .iter()
        .filter_map(|implementation| implementation.as_ref().ok())
        .map(|implementation| Measurement {
            case,
            implementation: &**implementation,
            sliced,
            progress: &bar,
        })
        .collect();
    let steps: u64 = measurements
        .iter()
        .map(|measurement| steps(measurement, protocol))
        .sum();
    bar.set_length(steps);

    let mut invariances = Vec::new();
    for measurement in &measurements {
        bar.set_message(measurement.implementation.name());
        invariances.push(invariance(measurement, protocol)?);
    }
    let mut by_size: Vec<Vec<(u64, AccuracyLatency)>> = vec![Vec::new(); measurements.len()];
    let mut ceilings = Vec::new();
    for &positions in &protocol.positions {
        bar.set_message(format!("S = {positions}"));
        let accuracies = accuracy(&measurements, protocol, positions)?;
        let bytes = case.bytes_per_position_and_column() * case.hidden * positions;
        if sliced {
            ceilings.push((positions, ceilings::of_cpu(bytes)));
        }
        let clock = Clock {
            warm_up: protocol.warm_up,
            timed_runs: protocol.timed_runs,
            seed: protocol.layout_seed,
            progress: &bar,
        };
        for ((measurement, accuracy), sizes) in
            measurements.iter().zip(accuracies).zip(&mut by_size)
        {
            let latency = measurement
                .implementation
                .latency(case, positions, &clock)?;
            sizes.push((
                positions,
                AccuracyLatency {
                    fwd_rel_err: accuracy.fwd_rel_err(),
                    grad_rel_err: accuracy.grad_rel_err().collect(),
                    fwd_us: latency.fwd_us,
                    fwd_bwd_us: latency.fwd_bwd_us,
                    fwd_planned_us: latency.fwd_planned_us,
                    bwd_us: latency.bwd_us,
                    bwd_planned_us: latency.bwd_planned_us,
                    plan_us: latency.plan_us,
                    correctly_rounded: accuracy.correctly_rounded(),
                    workspace_bytes: latency.workspace_bytes,
                    schedule: latency.schedule,
                    source_hash: latency.source_hash,
                },
            ));
        }
    }
    bar.finish_and_clear();

    let mut measured = measurements
        .iter()
        .zip(invariances.into_iter().zip(by_size))
        .map(|(measurement, (batch_invariance, sizes))| {
            Outcome::Measured(Box::new(Measured {
                source: measurement.implementation.source(),
                has_backward: true,
                batch_invariance,
                accuracy_latency: sizes.into_iter().collect(),
            }))
        });
    let outcomes = NAMES
        .into_iter()
        .zip(&implementations)
        .filter_map(|(name, implementation)| {
            let outcome = match implementation {
                Ok(_) => measured.next()?,
                Err(reason) => Outcome::Unavailable {
                    unavailable: reason.clone(),
                },
            };
            Some((name, outcome))
        });
    let (rowloom_commit, tracked_tree_dirty) = environment::commit();
    Ok(Report {
        kind: published
            .and_then(|published| published.text("kind"))
            .unwrap_or_else(|| "rowloom_report".to_owned()),
        rfc: published.and_then(|published| published.text("rfc")),
        op: kernel.name.to_owned(),
        rl_kernel_commit: None,
        rowloom_commit,
        tracked_tree_dirty,
        environment: environment::environment(
            device,
            case.layout.to_string(),
            ceilings.into_iter().collect(),
        ),
        quick: args.quick,
        protocol: Record {
            dtype: case.dtype.to_string(),
            hidden: case.hidden,
            rows: case.named_counts(&case.forward).into_iter().collect(),
            index: IntType::I64.to_string(),
            generator: random::GENERATOR.to_owned(),
            columns_at_once: columns_at_once(
                case,
                sliced,
                protocol.full_batch.max(protocol.largest()),
            ),
            protocol: protocol.clone(),
        },
        results: Results {
            plain: outcomes.collect(),
        },
    })
}

/// Keys of the implementations.
const NAMES: [&str; 3] = ["rowloom", "rowloom_f64", "index_select"];

/// The implementations in the order of [`NAMES`]; for one that cannot run, why.
fn implementations(
    declaration: &Declaration,
    case: &Case,
    device: &Device,
) -> Result<Vec<std::result::Result<Box<dyn Implementation>, String>>> {
    let ours = |name, accumulate: Accumulate| -> Result<Box<dyn Implementation>> {
        let order = Order {
            accumulate,
            ..declaration.forward().order
        };
        let ordered = declaration.with_order(order).map_err(Error::failed)?;
        let kernels = (
            ordered.forward().clone().into(),
            ordered.backward(&Wants::all(ordered.forward())),
        );
        let source = format!("rowloom, sums in blocks of {} in {accumulate}", order.block);
        Ok(Box::new(ours::Rowloom::new(
            name, source, kernels, case, device,
        )?))
    };
    let framework: std::result::Result<Box<dyn Implementation>, String> = if device.name() == "cpu"
    {
        Ok(Box::new(stand_in::StandIn::new(case)))
    } else {
        Err(format!(
            "the framework path is not written for {device} yet"
        ))
    };
    Ok(vec![
        Ok(ours(NAMES[0], Accumulate::F32)?),
        Ok(ours(NAMES[1], Accumulate::F64)?),
        framework,
    ])
}

/// Steps of the progress bar for one implementation.
fn steps(measurement: &Measurement<'_>, protocol: &Protocol) -> u64 {
    let alone: u64 = protocol.all_rows.iter().sum::<u64>() * protocol.seeds.len() as u64;
    let published = 2 * (alone + protocol.sub_batches() + protocol.comparisons());
    let sizes = protocol.positions.len() as u64;
    published + table_gradient::steps(measurement, protocol) + sizes * (1 + latency::STEPS)
}

/// All checks of batch invariance.
fn invariance(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<BatchInvariance> {
    let all_rows = invariance::all_rows(measurement, protocol)?;
    let full_vs_sub_batches = invariance::full_vs_sub(measurement, protocol)?;
    let batch_size_sweep = invariance::sweep(measurement, protocol)?;
    let params_repeatable = table_gradient::repeatable(measurement, protocol)?;
    let table_gradient = table_gradient::table_gradient(measurement, protocol)?;
    let batch_invariant = all_rows
        .0
        .iter()
        .all(|(_, rows)| rows.fwd_differ + rows.rowgrad_differ == 0)
        && full_vs_sub_batches.fwd_differ + full_vs_sub_batches.rowgrad_differ == 0
        && batch_size_sweep.differ == 0
        && params_repeatable
        && table_gradient.is_invariant();
    Ok(BatchInvariance {
        all_rows,
        params_repeatable,
        full_vs_sub_batches,
        batch_size_sweep,
        table_gradient,
        batch_invariant,
    })
}
