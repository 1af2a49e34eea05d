//! How far results are from the kernel evaluated in f64, sums in double-double.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::OutputKind;
use rowloom_runtime::oracle::{self, Exact};

use crate::error::{Error, Result};

use super::Measurement;
use super::host::{Elements, HostTensor, Outputs};
use super::inputs::{Batch, Case};
use super::placed;
use super::protocol::Protocol;

/// Columns of f64 references in memory at once.
const COLUMNS: u64 = 512;

/// How far one implementation is from exact, at one S.
#[derive(Clone, Debug, Default)]
pub struct Accuracy {
    forward: Distance,
    gradients: Vec<(String, Distance)>,
    sums: u64,
    correctly_rounded: u64,
}

/// Largest error and largest reference.
#[derive(Clone, Copy, Debug, Default)]
struct Distance {
    error: f64,
    reference: f64,
}

impl Distance {
    fn add(&mut self, number: f64, exact: Exact) {
        // The low part matters where the stored type is nearly as wide as f64's.
        let error = ((number - exact.hi) - exact.lo).abs();
        // A NaN must show, and `max` would swallow it.
        self.error = if error.is_nan() || self.error.is_nan() { f64::NAN } else { self.error.max(error) };
        self.reference = self.reference.max(exact.hi.abs());
    }

    fn relative(self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.reference }
    }
}

impl Accuracy {
    /// max|err| / max|ref| of the outputs.
    pub fn fwd_rel_err(&self) -> f64 {
        self.forward.relative()
    }

    /// max|err| / max|ref| of each gradient, by the input's name.
    pub fn grad_rel_err(&self) -> impl Iterator<Item = (&str, f64)> {
        self.gradients.iter().map(|(name, error)| (name.as_str(), error.relative()))
    }

    /// Share of the sums that equal the exact sum rounded once.
    pub fn correctly_rounded(&self) -> Option<f64> {
        (self.sums > 0).then(|| self.correctly_rounded as f64 / self.sums as f64)
    }
}

/// The accuracy of each of these measurements of one case, at `positions` positions.
pub fn accuracy(measurements: &[Measurement<'_>], protocol: &Protocol, positions: u64) -> Result<Vec<Accuracy>> {
    let mut accuracies = vec![Accuracy::default(); measurements.len()];
    let Some(first) = measurements.first() else {
        return Ok(accuracies);
    };
    let case = first.case;
    for kernel in case.kernels() {
        for columns in first.slices(positions) {
            let batch = case.batch(kernel, positions, protocol.layout_seed, columns);
            let outputs = measurements
                .iter()
                .map(|measurement| measurement.implementation.evaluate(kernel.direction, &batch))
                .collect::<Result<Vec<Outputs>>>()?;
            compare(case, kernel, &batch, &outputs, &mut accuracies)?;
        }
    }
    for measurement in measurements {
        measurement.progress.inc(1);
    }
    Ok(accuracies)
}

/// Adds what one kernel shows in one slice of columns.
fn compare(
    case: &Case,
    kernel: &Verified,
    batch: &Batch,
    outputs: &[Outputs],
    accuracies: &mut [Accuracy],
) -> Result<()> {
    let inputs = placed::host_views(batch)?;
    let counts = case.named_counts(kernel);
    let hidden = batch.hidden as u64;
    for (number, output) in kernel.outputs.iter().enumerate() {
        for value in 0..output.values.len() {
            for start in (0..hidden).step_by(COLUMNS as usize) {
                let columns = start..hidden.min(start + COLUMNS);
                let exact =
                    oracle::exact(kernel, &inputs, &counts, number, value, columns.clone()).map_err(Error::failed)?;
                for (outputs, accuracy) in outputs.iter().zip(accuracies.iter_mut()) {
                    let place = match output.kind {
                        OutputKind::Rows(_) => Place { tensor: &outputs[number][value], first: columns.start },
                        OutputKind::Table { .. } => {
                            Place { tensor: &outputs[number][0], first: value as u64 * hidden + columns.start }
                        }
                    };
                    accuracy.add(kernel, number, place, &exact, (columns.end - columns.start) as usize);
                }
            }
        }
    }
    Ok(())
}

/// Where in an output the compared columns begin.
struct Place<'o> {
    tensor: &'o HostTensor,
    first: u64,
}

impl Accuracy {
    fn add(&mut self, kernel: &Verified, number: usize, place: Place<'_>, exact: &[Exact], width: usize) {
        let output = &kernel.outputs[number];
        let is_sum = matches!(output.kind, OutputKind::Table { .. });
        let mut errors = Distance::default();
        for (row, exact) in exact.chunks_exact(width).enumerate() {
            let at = row * place.tensor.columns + place.first as usize;
            for (column, &exact) in exact.iter().enumerate() {
                errors.add(place.tensor.elements.number(at + column), exact);
                if is_sum {
                    self.sums += 1;
                    self.correctly_rounded += u64::from(is_rounded(&place.tensor.elements, at + column, exact));
                }
            }
        }
        let total = match output.name.strip_prefix("d_") {
            Some(input) if kernel.direction == rowloom_codegen::ir::Direction::Backward => self.gradient(input),
            Some(_) | None => &mut self.forward,
        };
        let worse =
            if errors.error.is_nan() || total.error.is_nan() { f64::NAN } else { total.error.max(errors.error) };
        *total = Distance { error: worse, reference: total.reference.max(errors.reference) };
    }

    fn gradient(&mut self, input: &str) -> &mut Distance {
        let at = self.gradients.iter().position(|(name, _)| name == input).unwrap_or_else(|| {
            self.gradients.push((input.to_owned(), Distance::default()));
            self.gradients.len() - 1
        });
        &mut self.gradients[at].1
    }
}

/// Whether an element is the exact value rounded to its type once.
fn is_rounded(elements: &Elements, at: usize, exact: Exact) -> bool {
    use rowloom_codegen::DType;
    match elements {
        Elements::F32(values) => values[at].to_bits() == oracle::round_once(exact, DType::F32),
        Elements::F16(values) => u32::from(values[at].to_bits()) == oracle::round_once(exact, DType::F16),
        Elements::Bf16(values) => u32::from(values[at].to_bits()) == oracle::round_once(exact, DType::Bf16),
        Elements::I64(_) => false,
    }
}
