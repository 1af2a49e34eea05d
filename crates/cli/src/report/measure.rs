//! The run of a report: every check of every implementation, in order.

use std::ops::Range;

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, IntType, Verified, Wants};
use rowloom_op_adaln::random;
use rowloom_runtime::baseline::{Baseline, Ceiling, Ceilings};
use rowloom_runtime::{Declaration, Device, Stream};

use crate::error::{Error, Result};

use super::accuracy::{self, Accuracy};
use super::case::{Case, has_sums};
use super::clock::{CPU_BUDGET, Clock, is_gpu};
use super::framework::Framework;
use super::implementation::Implementation;
use super::latency;
use super::ours::Rowloom;
use super::placed::Inputs;
use super::protocol::Protocol;
use super::schema::{
    AccuracyLatency, AllRows, BatchInvariance, FullVsSub, Keyed, Measured, Outcome, Record, Results, Sweep,
    TableGradient, Traffic,
};
use super::table_gradient::SumChecks;
use super::{invariance, stand_in, table_gradient};

/// Bytes of position tensors in memory at once on a CPU, by which H is cut into slices.
const BYTES_AT_ONCE: u64 = 320 << 20;

/// One implementation being measured on one case.
pub struct Measurement<'m> {
    /// What is measured.
    pub case: &'m Case,
    /// Who is measured.
    pub implementation: &'m dyn Implementation,
    /// What compares its results where they lie.
    pub baseline: &'m Baseline,
    /// Whether H may be cut into slices to keep memory small.
    sliced: bool,
    /// Told of every comparison.
    pub progress: &'m ProgressBar,
}

impl Measurement<'_> {
    /// H in slices small enough for `positions` positions.
    pub fn slices(&self, positions: u64) -> Vec<Range<u64>> {
        self.case.slices(columns_at_once(self.case, self.sliced, positions))
    }
}

fn columns_at_once(case: &Case, sliced: bool, positions: u64) -> u64 {
    if !sliced {
        return case.hidden;
    }
    let bytes = case.bytes_per_position_and_column() * positions;
    (BYTES_AT_ONCE / bytes.max(1)).clamp(1, case.hidden)
}

/// Everything that is measured.
pub struct Everything {
    /// By implementation.
    pub results: Results,
    /// Memory speed by S.
    pub ceilings: Keyed<Ceiling>,
    /// What was measured.
    pub record: Record,
}

/// Measures everything.
pub fn measure(declaration: &Declaration, case: &Case, device: &Device, protocol: &Protocol) -> Result<Everything> {
    let stream = device.stream().map_err(Error::failed)?;
    let baseline = Baseline::new(&stream);
    let implementations = implementations(declaration, case, &stream)?;
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:>24} {wide_bar} {percent:>3} % {eta:>5}").map_err(Error::failed)?);
    let runs = implementations.iter().filter_map(|implementation| implementation.as_ref().ok());
    let runs: Vec<&dyn Implementation> = runs.map(|implementation| &**implementation).collect();
    let mut measured = measure_all(&runs, case, &baseline, protocol, &bar)?;
    bar.finish_and_clear();

    let outcomes = NAMES.into_iter().zip(&implementations).map(|(name, implementation)| {
        let outcome = match implementation {
            Ok(_) => Outcome::Measured(Box::new(measured.results.remove(0))),
            Err(reason) => Outcome::Unavailable { unavailable: reason.clone() },
        };
        (name, outcome)
    });
    let directions = [("forward", &case.forward), ("backward", &case.backward)];
    Ok(Everything {
        results: Results { plain: outcomes.collect() },
        ceilings: measured.ceilings.into_iter().collect(),
        record: Record {
            dtype: case.dtype.to_string(),
            hidden: case.hidden,
            rows: case.named_counts(&case.forward).into_iter().collect(),
            index: IntType::I64.to_string(),
            generator: random::GENERATOR.to_owned(),
            columns_at_once: columns_at_once(case, !is_gpu(device), protocol.full_batch.max(protocol.largest())),
            sums: directions.iter().filter(|(_, kernel)| has_sums(kernel)).map(|(direction, _)| *direction).collect(),
            traffic: directions.map(|(direction, kernel)| (direction, traffic(case, kernel))).into_iter().collect(),
            timing: timing(device),
            protocol: protocol.clone(),
        },
    })
}

fn traffic(case: &Case, kernel: &Verified) -> Traffic {
    match (case.written_bytes(kernel), case.read_bytes(kernel)) {
        (0, read) => Traffic { kind: "read", bytes_per_position: read * case.hidden },
        (written, _) => Traffic { kind: "write", bytes_per_position: written * case.hidden },
    }
}

/// How times were taken, for the record.
fn timing(device: &Device) -> &'static str {
    if is_gpu(device) {
        "CUDA events around each run; planned calls are queued behind a delay, so that the host's time is not in them; \
         ceilings in rounds between the implementations, the best stable median; caches are not flushed: \
         from S = 4097 on, at H = 5376 in bf16, outputs or gradients (264 MB) exceed the L2 cache several times"
    } else {
        "the host's clock around each run; a call that would take more than 10 s with all its runs is timed fewer \
         times, at least 10: fewest_timed_runs"
    }
}

/// What was measured of each implementation.
pub struct MeasuredAll {
    /// In the order of the implementations.
    pub results: Vec<Measured>,
    /// By S.
    pub ceilings: Vec<(u64, Ceiling)>,
}

/// Measures these implementations of one case.
pub fn measure_all(
    implementations: &[&dyn Implementation],
    case: &Case,
    baseline: &Baseline,
    protocol: &Protocol,
    progress: &ProgressBar,
) -> Result<MeasuredAll> {
    let sliced = !is_gpu(&baseline.stream().device());
    let measurement = |implementation| Measurement { case, implementation, baseline, sliced, progress };
    let measurements: Vec<Measurement<'_>> = implementations.iter().copied().map(measurement).collect();
    let mut steps_of_all = 0;
    for measurement in &measurements {
        steps_of_all += steps(measurement, protocol)?;
    }
    progress.set_length(steps_of_all);

    let mut checks = Vec::new();
    for measurement in &measurements {
        progress.set_message(measurement.implementation.name());
        checks.push(Published {
            all_rows: invariance::all_rows(measurement, protocol)?,
            full_vs_sub_batches: invariance::full_vs_sub(measurement, protocol)?,
            batch_size_sweep: invariance::sweep(measurement, protocol)?,
            params_repeatable: table_gradient::repeatable(measurement, protocol)?,
        });
    }
    let mut sums = vec![TableGradient::default(); measurements.len()];
    let mut by_size: Vec<Vec<(u64, AccuracyLatency)>> = vec![Vec::new(); measurements.len()];
    let mut ceilings = Vec::new();
    let clock = Clock {
        warm_up: protocol.warm_up,
        timed_runs: protocol.timed_runs,
        budget: CPU_BUDGET,
        fewest: protocol.timed_runs.into(),
        seed: protocol.layout_seed,
        progress,
        baseline,
    };
    for &positions in &protocol.positions {
        progress.set_message(format!("S = {positions}"));
        let accuracies = normal_gradients(&measurements, protocol, positions, &mut sums)?;
        let bytes = case.bytes_per_position_and_column() * case.hidden * positions;
        let mut memory = Ceilings::new(baseline, bytes)?;
        for ((measurement, accuracy), sizes) in measurements.iter().zip(accuracies).zip(&mut by_size) {
            if let Some(memory) = &mut memory {
                memory.round(baseline)?;
            }
            clock.fewest.set(protocol.timed_runs);
            let mut latency = measurement.implementation.latency(case, positions, &clock)?;
            let fewest = Some(clock.fewest.get()).filter(|&fewest| fewest < protocol.timed_runs);
            latency.fewest_timed_runs = fewest.map(|fewest| fewest as u64);
            sizes.push((positions, AccuracyLatency::new(&accuracy, latency)));
        }
        if let Some(memory) = &mut memory {
            memory.round(baseline)?;
            ceilings.push((positions, memory.ceiling()));
        }
    }
    let of_each = measurements.iter().zip(checks.into_iter().zip(sums).zip(by_size));
    let results = of_each.map(|(measurement, ((checks, sums), sizes))| Measured {
        source: measurement.implementation.source(),
        has_backward: true,
        batch_invariance: checks.with(sums),
        accuracy_latency: sizes.into_iter().collect(),
    });
    Ok(MeasuredAll { results: results.collect(), ceilings })
}

/// What needs normal gradients at one S, which are made once: accuracy, and at the largest S
/// the checks of sums.
fn normal_gradients(
    measurements: &[Measurement<'_>],
    protocol: &Protocol,
    positions: u64,
    sums: &mut [TableGradient],
) -> Result<Vec<Accuracy>> {
    let mut accuracies = vec![Accuracy::default(); measurements.len()];
    let Some(first) = measurements.first() else { return Ok(accuracies) };
    let case = first.case;
    for kernel in case.kernels() {
        let direction = kernel.direction;
        let new = |_| SumChecks::new(case, direction, protocol);
        let mut checks = measurements.iter().map(new).collect::<Result<Vec<_>>>()?;
        let checked = positions == protocol.largest() && has_sums(kernel);
        for columns in first.slices(positions) {
            let batch = case.batch(kernel, positions, protocol.layout_seed, columns)?;
            let inputs = Inputs::place(first.baseline.stream(), &batch)?;
            let inputs = inputs.views()?;
            accuracy::slice(measurements, direction, &batch, &inputs, &mut accuracies)?;
            if checked {
                for (measurement, checks) in measurements.iter().zip(&mut checks) {
                    checks.slice(measurement, &batch, &inputs)?;
                }
            }
        }
        if checked {
            for (checks, sums) in checks.iter().zip(sums.iter_mut()) {
                checks.add_to(sums);
            }
        }
    }
    for measurement in measurements {
        measurement.progress.inc(1);
    }
    Ok(accuracies)
}

/// Keys of the implementations.
const NAMES: [&str; 3] = ["rowloom", "rowloom_f64", stand_in::NAME];

/// The implementations in the order of [`NAMES`]; for one that cannot run, why.
fn implementations(
    declaration: &Declaration,
    case: &Case,
    stream: &Stream,
) -> Result<Vec<std::result::Result<Box<dyn Implementation>, String>>> {
    let ours = |name, accumulate| -> Result<Box<dyn Implementation>> {
        Ok(Box::new(ordered(name, declaration, accumulate, stream)?))
    };
    let boxed = |implementation: Framework| Box::new(implementation) as Box<dyn Implementation>;
    let framework = Framework::new(case, stream).map(boxed);
    Ok(vec![Ok(ours(NAMES[0], Accumulate::F32)?), Ok(ours(NAMES[1], Accumulate::F64)?), framework])
}

/// rowloom with sums in this type.
pub fn ordered(
    name: &'static str,
    declaration: &Declaration,
    accumulate: Accumulate,
    stream: &Stream,
) -> Result<Rowloom> {
    let order = Order { accumulate, ..declaration.forward().order };
    let ordered = declaration.with_order(order).map_err(Error::failed)?;
    let kernels = (ordered.forward().clone().into(), ordered.backward(&Wants::all(ordered.forward())));
    let source = format!("rowloom, sums in blocks of {} in {accumulate}", order.block);
    Ok(Rowloom::new(name, source, kernels, stream))
}

/// Steps of the progress bar for one implementation.
fn steps(measurement: &Measurement<'_>, protocol: &Protocol) -> Result<u64> {
    let alone: u64 = protocol.all_rows.iter().sum::<u64>() * protocol.seeds.len() as u64;
    let published = 2 * (alone + protocol.sub_batches() + protocol.comparisons());
    let sizes = protocol.positions.len() as u64;
    Ok(published + table_gradient::steps(measurement, protocol)? + sizes * (1 + latency::STEPS))
}

/// The checks as published.
struct Published {
    all_rows: Keyed<AllRows>,
    full_vs_sub_batches: FullVsSub,
    batch_size_sweep: Sweep,
    params_repeatable: bool,
}

impl Published {
    /// With those of sums: all there is to say about batch invariance.
    fn with(self, table_gradient: TableGradient) -> BatchInvariance {
        let Published { all_rows, full_vs_sub_batches, batch_size_sweep, params_repeatable } = self;
        let batch_invariant = all_rows.0.iter().all(|(_, rows)| rows.fwd_differ + rows.rowgrad_differ == 0)
            && full_vs_sub_batches.fwd_differ + full_vs_sub_batches.rowgrad_differ == 0
            && batch_size_sweep.differ == 0
            && params_repeatable
            && table_gradient.is_invariant();
        BatchInvariance {
            all_rows,
            params_repeatable,
            full_vs_sub_batches,
            batch_size_sweep,
            table_gradient,
            batch_invariant,
        }
    }
}
