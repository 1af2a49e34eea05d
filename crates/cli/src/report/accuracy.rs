//! How far results are from the kernel evaluated in f64, sums in double-double.

use std::collections::HashMap;

use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Direction, InputKind, OutputKind};
use rowloom_runtime::AnyView;
use rowloom_runtime::baseline::{Found, RowList};
use rowloom_runtime::oracle::{self, Exact};

use crate::error::{Error, Result};

use super::Measurement;
use super::calls::{Outputs, compare};
use super::host::{Elements, HostTensor};
use super::inputs::Batch;
use super::placed::{self, picked, read};

/// Bytes of f64 references in memory at once.
const BYTES_AT_ONCE: u64 = 256 << 20;

/// Most different tuples of indices for which one position stands for all that have the same.
const MOST_CLASSES: usize = 4096;

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
        self.join(Distance { error, reference: exact.hi.abs() });
    }

    fn join(&mut self, other: Distance) {
        // A NaN must show, and `max` would swallow it.
        let nan = self.error.is_nan() || other.error.is_nan();
        self.error = if nan { f64::NAN } else { self.error.max(other.error) };
        self.reference = self.reference.max(other.reference);
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
        match output.name.strip_prefix("d_") {
            Some(input) if kernel.direction == Direction::Backward => self.gradient(input).join(errors),
            Some(_) | None => self.forward.join(errors),
        }
    }

    fn gradient(&mut self, input: &str) -> &mut Distance {
        let at = self.gradients.iter().position(|(name, _)| name == input).unwrap_or_else(|| {
            self.gradients.push((input.to_owned(), Distance::default()));
            self.gradients.len() - 1
        });
        &mut self.gradients[at].1
    }
}

/// Where in an output the compared columns begin.
struct Place<'o> {
    tensor: &'o HostTensor,
    first: u64,
}

/// Adds what each measured implementation shows on some columns of a batch; `inputs` is where
/// it lies. Only tables, and one position of each kind, leave the device.
pub fn slice(
    measurements: &[Measurement<'_>],
    direction: Direction,
    batch: &Batch,
    inputs: &[Vec<AnyView<'_>>],
    accuracies: &mut [Accuracy],
) -> Result<()> {
    let Some(first) = measurements.first() else { return Ok(()) };
    let case = first.case;
    let kernel = case.kernel(direction);
    let mut classes = Classes::of(kernel, batch);
    let shown = measurements.iter().map(|measurement| show(measurement, direction, batch, inputs, &classes));
    let mut shown = shown.collect::<Result<Vec<Option<Shown>>>>()?;
    if shown.iter().any(Option::is_none) {
        // Somebody treats equal positions unequally: every position counts.
        classes = Classes::each(batch);
        let again = measurements.iter().map(|measurement| show(measurement, direction, batch, inputs, &classes));
        shown = again.collect::<Result<_>>()?;
    }
    let shown: Vec<Shown> = shown.into_iter().flatten().collect();
    let counts = case.named_counts(kernel);
    let hidden = batch.hidden as u64;
    let positions = batch.select(kernel, &classes.representatives);
    for (number, output) in kernel.outputs.iter().enumerate() {
        let (of, rows) = match output.kind {
            OutputKind::Rows(_) => (&positions, positions.positions as u64),
            OutputKind::Table { rows, .. } => (batch, case.rows(rows)?),
        };
        let views = placed::host_views(of)?;
        let at_once = (BYTES_AT_ONCE / 16 / rows.max(1)).clamp(1, hidden);
        for value in 0..output.values.len() {
            for start in (0..hidden).step_by(at_once as usize) {
                let columns = start..hidden.min(start + at_once);
                let width = (columns.end - columns.start) as usize;
                let exact = oracle::exact(kernel, &views, &counts, number, value, columns).map_err(Error::failed)?;
                for (shown, accuracy) in shown.iter().zip(accuracies.iter_mut()) {
                    let place = match output.kind {
                        OutputKind::Rows(_) => Place { tensor: &shown[number][value], first: start },
                        OutputKind::Table { .. } => {
                            Place { tensor: &shown[number][0], first: value as u64 * hidden + start }
                        }
                    };
                    accuracy.add(kernel, number, place, &exact, width);
                }
            }
        }
    }
    Ok(())
}

/// Positions that must give the same, since they differ in nothing but their place.
struct Classes {
    /// One position of each class.
    representatives: Vec<u32>,
    /// The class of each position.
    of: Vec<u32>,
}

impl Classes {
    /// Positions with equal indices, where nothing else belongs to a position.
    fn of(kernel: &Verified, batch: &Batch) -> Classes {
        if kernel.inputs.iter().any(|input| matches!(input.kind, InputKind::Rows(_))) {
            return Classes::each(batch);
        }
        let indices: Vec<&[i64]> =
            (0..kernel.inputs.len()).filter(|&at| kernel.inputs[at].is_index()).map(|at| batch.index(at)).collect();
        let mut known: HashMap<Vec<i64>, u32> = HashMap::new();
        let mut classes = Classes { representatives: Vec::new(), of: Vec::new() };
        for position in 0..batch.positions {
            let key: Vec<i64> = indices.iter().map(|index| index[position]).collect();
            let class = *known.entry(key).or_insert_with(|| {
                classes.representatives.push(position as u32);
                classes.representatives.len() as u32 - 1
            });
            classes.of.push(class);
            if known.len() > MOST_CLASSES {
                return Classes::each(batch);
            }
        }
        classes
    }

    /// Each position a class of its own.
    fn each(batch: &Batch) -> Classes {
        let all: Vec<u32> = (0..batch.positions as u32).collect();
        Classes { representatives: all.clone(), of: all }
    }
}

/// Per output its tables, or its rows at the representatives.
type Shown = Vec<Vec<HostTensor>>;

/// One call. `None` when positions of one class differ.
fn show(
    measurement: &Measurement<'_>,
    direction: Direction,
    batch: &Batch,
    inputs: &[Vec<AnyView<'_>>],
    classes: &Classes,
) -> Result<Option<Shown>> {
    let baseline = measurement.baseline;
    let stream = baseline.stream();
    let mut outputs = Outputs::new(measurement, direction, inputs)?;
    outputs.run(measurement, direction, inputs, batch.positions as u64, None)?;
    let representatives = RowList::new(stream, &classes.representatives).map_err(Error::failed)?;
    let of = RowList::new(stream, &classes.of).map_err(Error::failed)?;
    let mut found = Found::new(stream, 1).map_err(Error::failed)?;
    let mut shown = Vec::new();
    for (number, output) in measurement.case.kernel(direction).outputs.iter().enumerate() {
        let tensors = outputs.of(number).iter();
        shown.push(match output.kind {
            OutputKind::Table { .. } => tensors.map(|tensor| read(stream, tensor)).collect::<Result<_>>()?,
            OutputKind::Rows(_) => {
                let mut rows = Vec::new();
                for tensor in tensors {
                    let one_each = picked(baseline, tensor, representatives.all())?;
                    let pair = std::iter::once((tensor.view(), one_each.view()));
                    compare(measurement, pair, of.all(), &mut found, 0)?;
                    rows.push(read(stream, &one_each)?);
                }
                rows
            }
        });
    }
    let equal = found.read(stream).map_err(Error::failed)?[0].is_none();
    Ok(equal.then_some(shown))
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
