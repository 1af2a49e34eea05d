//! A kernel evaluated beyond its own precision: the measure of its error.
//!
//! The IR is interpreted in f64 without any rounding point; sums over positions
//! are double-double and visit positions in descending order. It shares no code
//! with the executor but the reading of tensors, and has no plan.

use std::ops::Range;

use half::{bf16, f16};
use rayon::prelude::*;
use rowloom_codegen::ir::{InputId, InputKind, NodeId, Op, OutputKind, RowId};
use rowloom_codegen::{DType, IntType, Spec, Verified};

use crate::call::sizes_of_inputs;
use crate::cpu::HostRows;
use crate::cpu::numbers::Accumulator;
use crate::device::Device;
use crate::error::Error;
use crate::tensor::AnyView;

/// A number without rounding, as far as double-double can tell: `hi + lo`, with
/// `lo` at most half a unit in the last place of `hi`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exact {
    /// The value rounded to f64.
    pub hi: f64,
    /// What that leaves.
    pub lo: f64,
}

/// Columns of one task.
const COLUMNS: u64 = 64;

/// Columns `columns` of chunk or tensor `value` of output `output`, row after row.
/// Memory: 16 bytes an element of the result; a table's rows times 64 columns a
/// thread besides. `counts` gives row counts that no input determines. Inputs
/// are on the CPU.
///
/// # Errors
/// As [`crate::run`]; [`Error::Range`] for an output, value or column that is not there.
pub fn exact(
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
    output: usize,
    value: usize,
    columns: Range<u64>,
) -> Result<Vec<Exact>, Error> {
    let stream = Device::cpu().stream()?;
    let (spec, positions) = sizes_of_inputs(&stream, kernel, inputs, counts)?;
    let beyond = |what, at: usize, size: usize| {
        let (start, end, size) = (at as u64, at as u64 + 1, size as u64);
        Error::Range { what, start, end, size }
    };
    let declared = kernel.outputs.get(output).ok_or_else(|| beyond("outputs", output, kernel.outputs.len()))?;
    let node = *declared.values.get(value).ok_or_else(|| beyond("values", value, declared.values.len()))?;
    if columns.start > columns.end || columns.end > spec.hidden {
        let (start, end, size) = (columns.start, columns.end, spec.hidden);
        return Err(Error::Range { what: "columns", start, end, size });
    }
    let host = |view: &_| HostRows::new(view).expect("the inputs' devices have been checked");
    let host: Vec<Vec<HostRows<'_>>> = inputs.iter().map(|tensors| tensors.iter().map(host).collect()).collect();
    let rows = (0..kernel.rows.len() as u32).map(|row| rows_of(kernel, &spec, &host, positions, RowId(row)));
    let oracle = Oracle { kernel, spec: &spec, positions, inputs: &host, rows: rows.collect::<Result<_, _>>()? };
    let rows = match declared.kind {
        OutputKind::Rows(_) => positions,
        OutputKind::Table { rows, .. } => spec.extent(rows),
    };
    let starts: Vec<u64> = columns.clone().step_by(COLUMNS as usize).collect();
    let slice = |start: u64| {
        let slice = start..(start + COLUMNS).min(columns.end);
        match declared.kind {
            OutputKind::Rows(_) => oracle.positions(node, &slice),
            OutputKind::Table { .. } => oracle.table(node, rows, &slice),
        }
    };
    let slices: Vec<Vec<Exact>> = starts.into_par_iter().map(slice).collect();
    let width = (columns.end - columns.start) as usize;
    let mut all = vec![Exact::default(); rows as usize * width];
    let mut first = 0;
    for slice in slices {
        let slice_width = slice.len() / rows as usize;
        for (row, values) in slice.chunks_exact(slice_width).enumerate() {
            all[row * width + first..][..slice_width].copy_from_slice(values);
        }
        first += slice_width;
    }
    Ok(all)
}

/// The row of each position; `None` for a padded one.
fn rows_of(
    kernel: &Verified,
    spec: &Spec,
    inputs: &[Vec<HostRows<'_>>],
    positions: u64,
    row: RowId,
) -> Result<Vec<Option<u64>>, Error> {
    let expression = &kernel.rows[row.index()];
    let mut rows = Vec::new();
    for position in 0..positions {
        let mut sum = Some(expression.offset);
        for &(input, factor) in &expression.terms {
            let InputKind::Index { ty, bound, pad } = kernel.inputs[input.index()].kind else {
                unreachable!("the verifier lets row expressions name indices alone")
            };
            let value = integer(spec.int(ty), inputs[input.index()][0].part(position, &(0..1)));
            let (argument, bound) = (kernel.inputs[input.index()].name.clone(), spec.extent(bound));
            if Some(value) == pad {
                sum = None;
            } else if value < 0 || value as u64 >= bound {
                return Err(Error::Index { argument, position, value, bound, pad, help: None });
            } else {
                sum = sum.map(|sum| sum + factor * value as u64);
            }
        }
        rows.push(sum);
    }
    Ok(rows)
}

fn integer(ty: IntType, bytes: &[u8]) -> i64 {
    match ty {
        IntType::U8 => bytes[0].into(),
        IntType::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).into(),
        IntType::I64 => bytemuck::pod_read_unaligned(bytes),
    }
}

struct Oracle<'a> {
    kernel: &'a Verified,
    spec: &'a Spec,
    positions: u64,
    inputs: &'a [Vec<HostRows<'a>>],
    rows: Vec<Vec<Option<u64>>>,
}

impl Oracle<'_> {
    /// A row value at all positions.
    fn positions(&self, node: NodeId, columns: &Range<u64>) -> Vec<Exact> {
        (0..self.positions).flat_map(|position| self.row(node, position, columns)).collect()
    }

    /// A row value at one position.
    fn row(&self, node: NodeId, position: u64, columns: &Range<u64>) -> Vec<Exact> {
        match self.kernel.node(node).op {
            Op::Read { input, element } => self.widened(input, element, position, columns),
            Op::Gather { table, chunk, row } => match self.rows[row.index()][position as usize] {
                Some(at) => {
                    let first = u64::from(chunk) * self.spec.hidden;
                    self.widened(table, 0, at, &(first + columns.start..first + columns.end))
                }
                None => vec![Exact::default(); (columns.end - columns.start) as usize],
            },
            Op::Cast { value } => self.row(value, position, columns),
            Op::Add { left, right } => {
                let (left, right) = (self.row(left, position, columns), self.row(right, position, columns));
                left.into_iter().zip(right).map(|(left, right)| left.plus(right)).collect()
            }
            Op::SegmentSum { .. } | Op::Zero => unreachable!("the verifier lets no table value be a row"),
        }
    }

    /// A table value at all rows.
    fn table(&self, node: NodeId, rows: u64, columns: &Range<u64>) -> Vec<Exact> {
        let width = (columns.end - columns.start) as usize;
        let mut table = vec![Exact::default(); rows as usize * width];
        match self.kernel.node(node).op {
            Op::Zero => {}
            Op::Cast { value } => return self.table(value, rows, columns),
            Op::Add { left, right } => {
                let (left, right) = (self.table(left, rows, columns), self.table(right, rows, columns));
                for (sum, (left, right)) in table.iter_mut().zip(left.into_iter().zip(right)) {
                    *sum = left.plus(right);
                }
            }
            Op::SegmentSum { value, row } => {
                for position in (0..self.positions).rev() {
                    let Some(at) = self.rows[row.index()][position as usize] else { continue };
                    let sums = &mut table[at as usize * width..][..width];
                    for (sum, summand) in sums.iter_mut().zip(self.row(value, position, columns)) {
                        *sum = sum.plus(summand);
                    }
                }
            }
            Op::Read { .. } | Op::Gather { .. } => unreachable!("the verifier lets no row be a table value"),
        }
        table
    }

    fn widened(&self, input: InputId, element: u32, row: u64, columns: &Range<u64>) -> Vec<Exact> {
        let bytes = self.inputs[input.index()][element as usize].part(row, columns);
        let (InputKind::Rows(ty) | InputKind::Table { ty, .. }) = self.kernel.inputs[input.index()].kind else {
            unreachable!("the verifier lets values come from rows and tables alone")
        };
        let exact = |hi: f64| Exact { hi, lo: 0.0 };
        match self.spec.float(ty) {
            DType::F32 => bytemuck::cast_slice::<u8, f32>(bytes).iter().map(|&x| exact(x.into())).collect(),
            DType::F16 => bytemuck::cast_slice::<u8, f16>(bytes).iter().map(|&x| exact(x.into())).collect(),
            DType::Bf16 => bytemuck::cast_slice::<u8, bf16>(bytes).iter().map(|&x| exact(x.into())).collect(),
        }
    }
}

impl Exact {
    /// The double-double sum; an infinity or NaN is that of plain addition.
    fn plus(self, other: Exact) -> Exact {
        let (high, error) = two_sum(self.hi, other.hi);
        if !high.is_finite() {
            return Exact { hi: high, lo: 0.0 };
        }
        let (low, low_error) = two_sum(self.lo, other.lo);
        let (high, low) = fast_two_sum(high, error + low);
        let (hi, lo) = fast_two_sum(high, low + low_error);
        Exact { hi, lo }
    }
}

/// `a + b` and what its rounding left out.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// The same for `a` of the larger magnitude.
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// The bits of `exact` rounded to nearest even once; a NaN is the canonical one.
/// A 16-bit type's are the lower half.
pub fn round_once(exact: Exact, ty: DType) -> u32 {
    let odd = odd_f64(exact);
    match ty {
        // f64 has more than two bits beyond f32: what is rounded to odd rounds as the sum itself.
        DType::F32 => odd.stored_as::<f32>().to_bits(),
        DType::F16 => odd.stored_as::<f16>().to_bits().into(),
        DType::Bf16 => odd.stored_as::<bf16>().to_bits().into(),
    }
}

/// `hi + lo` rounded to odd: `hi` where it is exact or odd, else its neighbour towards `lo`.
fn odd_f64(exact: Exact) -> f64 {
    let Exact { hi, lo } = exact;
    let bits = hi.to_bits();
    if lo == 0.0 || lo.is_nan() || !hi.is_finite() || bits & 1 == 1 {
        return hi;
    }
    let away_from_zero = (lo > 0.0) == (hi > 0.0);
    f64::from_bits(if away_from_zero { bits + 1 } else { bits - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_double_keeps_what_f64_drops() {
        let sum = [1e30, 1.0, -1e30, 2f64.powi(-60)].map(|hi| Exact { hi, lo: 0.0 });
        let total = sum.into_iter().fold(Exact::default(), Exact::plus);
        assert_eq!(total, Exact { hi: 1.0, lo: 2f64.powi(-60) });
    }

    #[test]
    fn rounding_sees_the_low_part() {
        let tie = 1.0 + 2f64.powi(-8);
        let bits = |lo| round_once(Exact { hi: tie, lo }, DType::Bf16);
        assert_eq!((bits(-1e-30), bits(0.0), bits(1e-30)), (0x3F80, 0x3F80, 0x3F81));
        let tie = -(1.0 + 3.0 * 2f64.powi(-24));
        let bits = |lo| round_once(Exact { hi: tie, lo }, DType::F32);
        assert_eq!((bits(-1e-30), bits(0.0), bits(1e-30)), (0xBF80_0002, 0xBF80_0002, 0xBF80_0001));
        let bits = |hi, lo| round_once(Exact { hi, lo }, DType::F16);
        assert_eq!((bits(65520.0, -1e-20), bits(65520.0, 0.0)), (0x7BFF, 0x7C00));
        assert_eq!((bits(f64::NAN, 0.0), bits(f64::NEG_INFINITY, 0.0)), (0x7E00, 0xFC00));
    }
}
