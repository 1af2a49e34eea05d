//! The run of a report: every check of every implementation, in order.

use std::ops::Range;

use indicatif::{ProgressBar, ProgressStyle};
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, IntType, Wants};
use rowloom_op_adaln::random;
use rowloom_runtime::{Declaration, Device};

use crate::error::{Error, Result};

use super::accuracy::accuracy;
use super::framework::Framework;
use super::implementation::Implementation;
use super::inputs::Case;
use super::latency::{self, Clock, is_gpu};
use super::protocol::Protocol;
use super::schema::{AccuracyLatency, BatchInvariance, Ceiling, Keyed, Measured, Outcome, Record, Results};
use super::stand_in::StandIn;
use super::{ceilings, invariance, ours, table_gradient};

/// Bytes of position tensors in memory at once on a CPU, by which H is cut into slices.
const BYTES_AT_ONCE: u64 = 320 << 20;

/// One implementation being measured on one case.
pub struct Measurement<'m> {
    /// What is measured.
    pub case: &'m Case,
    /// Who is measured.
    pub implementation: &'m dyn Implementation,
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
    let sliced = !is_gpu(device);
    let implementations = implementations(declaration, case, device)?;
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{msg:>24} {wide_bar} {percent:>3} % {eta:>5}").map_err(Error::failed)?);
    let measurements: Vec<Measurement<'_>> = implementations
        .iter()
        .filter_map(|implementation| implementation.as_ref().ok())
        .map(|implementation| Measurement { case, implementation: &**implementation, sliced, progress: &bar })
        .collect();
    let steps: u64 = measurements.iter().map(|measurement| steps(measurement, protocol)).sum();
    bar.set_length(steps);

    let mut invariances = Vec::new();
    for measurement in &measurements {
        bar.set_message(measurement.implementation.name());
        invariances.push(invariance(measurement, protocol)?);
    }
    let mut by_size: Vec<Vec<(u64, AccuracyLatency)>> = vec![Vec::new(); measurements.len()];
    let mut ceilings = Vec::new();
    let clock = Clock {
        warm_up: protocol.warm_up,
        timed_runs: protocol.timed_runs,
        seed: protocol.layout_seed,
        progress: &bar,
    };
    for &positions in &protocol.positions {
        bar.set_message(format!("S = {positions}"));
        let accuracies = accuracy(&measurements, protocol, positions)?;
        let bytes = case.bytes_per_position_and_column() * case.hidden * positions;
        if is_gpu(device) {
            let stream = device.stream().map_err(Error::failed)?;
            ceilings.push((positions, ceilings::of_gpu(&stream, bytes)?));
        } else if device.name() == "cpu" {
            ceilings.push((positions, ceilings::of_cpu(bytes)));
        }
        for ((measurement, accuracy), sizes) in measurements.iter().zip(accuracies).zip(&mut by_size) {
            let latency = measurement.implementation.latency(case, positions, &clock)?;
            sizes.push((positions, AccuracyLatency::new(&accuracy, latency)));
        }
    }
    bar.finish_and_clear();

    let mut measured = measurements.iter().zip(invariances.into_iter().zip(by_size)).map(
        |(measurement, (batch_invariance, sizes))| {
            Outcome::Measured(Box::new(Measured {
                source: measurement.implementation.source(),
                has_backward: true,
                batch_invariance,
                accuracy_latency: sizes.into_iter().collect(),
            }))
        },
    );
    let outcomes = NAMES.into_iter().zip(&implementations).filter_map(|(name, implementation)| {
        let outcome = match implementation {
            Ok(_) => measured.next()?,
            Err(reason) => Outcome::Unavailable { unavailable: reason.clone() },
        };
        Some((name, outcome))
    });
    Ok(Everything {
        results: Results { plain: outcomes.collect() },
        ceilings: ceilings.into_iter().collect(),
        record: Record {
            dtype: case.dtype.to_string(),
            hidden: case.hidden,
            rows: case.named_counts(&case.forward).into_iter().collect(),
            index: IntType::I64.to_string(),
            generator: random::GENERATOR.to_owned(),
            columns_at_once: columns_at_once(case, sliced, protocol.full_batch.max(protocol.largest())),
            protocol: protocol.clone(),
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
        let order = Order { accumulate, ..declaration.forward().order };
        let ordered = declaration.with_order(order).map_err(Error::failed)?;
        let kernels = (ordered.forward().clone().into(), ordered.backward(&Wants::all(ordered.forward())));
        let source = format!("rowloom, sums in blocks of {} in {accumulate}", order.block);
        Ok(Box::new(ours::Rowloom::new(name, source, kernels, case, device)?))
    };
    let boxed = |implementation: Framework| Box::new(implementation) as Box<dyn Implementation>;
    let framework = if is_gpu(device) {
        Framework::new(case, device).map(boxed)
    } else if device.name() == "cpu" {
        Ok(Box::new(StandIn::new(case)) as Box<dyn Implementation>)
    } else {
        Err(format!("the framework path runs on a CPU or a GPU, not on {device}"))
    };
    Ok(vec![Ok(ours(NAMES[0], Accumulate::F32)?), Ok(ours(NAMES[1], Accumulate::F64)?), framework])
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
    let batch_invariant = all_rows.0.iter().all(|(_, rows)| rows.fwd_differ + rows.rowgrad_differ == 0)
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
