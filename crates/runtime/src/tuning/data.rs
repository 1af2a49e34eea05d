//! The tensors of a tuned call: made where they lie, alike on every device.

use rowloom_codegen::cuda::{PlanArray, Term};
use rowloom_codegen::ir::{InputKind, OutputKind};
use rowloom_codegen::{DType, IntType, Subject};

use crate::element::ElementType;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView};

/// The numbers of an index: of which packing, of which index of the subject in their order, for
/// how many positions.
pub type Indices<'i> = dyn Fn(usize, usize, u64) -> Vec<i64> + 'i;

/// Rows of a tensor that are random; the rest repeats them. A prime, so that no two blocks of a power
/// of two of positions are alike: were they, a sum of blocks would be the same in any order.
const RANDOM_ROWS: u64 = 97;

/// Elements of them at most: rows may be long.
const RANDOM_ELEMENTS: u64 = 1 << 20;

/// One position of so many has no row, where an index has a pad for that.
const PADDED: usize = 11;

/// An input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) ty: ElementType,
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// How many such tensors it has.
    pub(super) count: u64,
}

impl Size {
    fn bytes(self) -> u64 {
        self.ty.bytes() * self.rows * self.columns * self.count
    }
}

/// What a call has.
pub(super) struct Sizes {
    /// Inputs in their order; an index is `None`.
    pub(super) inputs: Vec<Option<Size>>,
    /// The indices, in their order among all inputs.
    pub(super) indices: Vec<Term>,
    pub(super) outputs: Vec<(String, Size)>,
}

impl Sizes {
    pub(super) fn of(subject: &Subject, positions: u64) -> Sizes {
        match subject {
            Subject::Kernel { kernel, spec } => {
                let mut indices = Vec::new();
                let inputs = kernel.inputs.iter().map(|input| {
                    let count = u64::from(input.count);
                    match input.kind {
                        InputKind::Rows(ty) => {
                            let ty = ElementType::Float(spec.float(ty));
                            Some(Size { ty, rows: positions, columns: spec.hidden, count })
                        }
                        InputKind::Table { ty, rows, chunks } => {
                            let ty = ElementType::Float(spec.float(ty));
                            let columns = spec.hidden * u64::from(chunks);
                            Some(Size { ty, rows: spec.extent(rows), columns, count })
                        }
                        InputKind::Index { ty, bound, pad } => {
                            indices.push(Term { ty: spec.int(ty), factor: 1, bound: spec.extent(bound), pad });
                            None
                        }
                    }
                });
                let inputs = inputs.collect();
                let outputs = kernel.outputs.iter().map(|output| {
                    let values = output.values.len() as u64;
                    let count = output.tensors() as u64;
                    let (ty, rows, columns) = match output.kind {
                        OutputKind::Rows(ty) => (ty, positions, spec.hidden),
                        OutputKind::Table { ty, rows } => (ty, spec.extent(rows), spec.hidden * values),
                    };
                    let ty = ElementType::Float(spec.float(ty));
                    (output.name.clone(), Size { ty, rows, columns, count })
                });
                Sizes { inputs, indices, outputs: outputs.collect() }
            }
            Subject::Plan(shape) => {
                let most_blocks = positions / u64::from(shape.block) + shape.rows;
                let output = |array| {
                    let rows = match array {
                        PlanArray::Rows | PlanArray::Order => positions,
                        PlanArray::SegmentStart | PlanArray::BlockStart | PlanArray::PartialStart => shape.rows + 1,
                        PlanArray::BlockRow => most_blocks,
                    };
                    (format!("{array:?}"), Size { ty: ElementType::U32, rows, columns: 1, count: 1 })
                };
                let (inputs, indices) = (vec![None; shape.terms.len()], shape.terms.clone());
                Sizes { inputs, indices, outputs: PlanArray::ALL.map(output).to_vec() }
            }
        }
    }

    /// Bytes that one call reads and writes, each once.
    pub(super) fn touched(&self, positions: u64) -> u64 {
        let floats: u64 = self.inputs.iter().flatten().map(|size| size.bytes()).sum();
        floats + self.index_bytes(positions) + self.output_bytes()
    }

    /// Bytes of the tensors of a comparison: two sets of outputs, and in each packing indices and
    /// what plans take of them.
    pub(super) fn needed(&self, positions: u64, packings: u64) -> u64 {
        let floats: u64 = self.inputs.iter().flatten().map(|size| size.bytes()).sum();
        let plans = self.indices.len() as u64 * (8 * positions + (1 << 20));
        floats + 2 * self.output_bytes() + packings * (self.index_bytes(positions) + plans) + 4 * self.longest()
    }

    fn index_bytes(&self, positions: u64) -> u64 {
        self.indices.iter().map(|index| positions * u64::from(index.ty.bytes())).sum()
    }

    fn output_bytes(&self) -> u64 {
        self.outputs.iter().map(|(_, size)| size.bytes()).sum()
    }

    /// Rows of the longest output.
    pub(super) fn longest(&self) -> u64 {
        self.outputs.iter().map(|(_, size)| size.rows).max().unwrap_or(1)
    }
}

/// The tensors of one input, of random numbers that its name decides.
pub(super) fn random(stream: &Stream, input: usize, size: Size) -> Result<Vec<AnyTensor>, Error> {
    (0..size.count).map(|element| repeated(stream, (input as u64) << 32 | element, size)).collect()
}

/// Random rows, again and again, by copies on the device: the host makes a megabyte or two.
fn repeated(stream: &Stream, name: u64, size: Size) -> Result<AnyTensor, Error> {
    let Size { ty, rows, columns, .. } = size;
    let few = random_rows(columns).min(rows.max(1));
    let mut tensor = AnyTensor::uninit(stream, ty, rows, columns)?;
    let bytes = numbers(name, ty, (few * columns) as usize);
    tensor.view_mut().rows(0..few)?.upload(stream, &bytes)?;
    let mut done = few;
    while done < rows {
        let more = done.min(rows - done);
        let (from, to) = tensor.view_mut().split_rows(done)?;
        to.rows(0..more)?.copy_from(stream, from.as_view().rows(0..more)?)?;
        done += more;
    }
    Ok(tensor)
}

/// How many rows of so many columns are random: the largest odd prime that [`RANDOM_ROWS`] and
/// [`RANDOM_ELEMENTS`] allow, and 3 where rows are longer than that.
fn random_rows(columns: u64) -> u64 {
    let most = RANDOM_ROWS.min(RANDOM_ELEMENTS / columns.max(1));
    let is_prime = |number: &u64| (2..*number).all(|factor| !number.is_multiple_of(factor));
    (3..=most).rev().find(is_prime).unwrap_or(3)
}

/// Small numbers, and among them one of eight that is 128 or -128: while a sum is large it loses
/// the last bits of what is small, and where the large ones cancel it shows which, so in what order
/// it was made.
fn numbers(name: u64, ty: ElementType, count: usize) -> Vec<u8> {
    let mut random = vec![0u32; count];
    blake3::Hasher::new()
        .update(b"rowloom tuning")
        .update(&name.to_le_bytes())
        .finalize_xof()
        .fill(bytemuck::cast_slice_mut(&mut random));
    let number = |word: u32| match word % 16 {
        0 => 128.0,
        8 => -128.0,
        _ => (word as i32 >> 7) as f32 / 2f32.powi(32),
    };
    let numbers = random.into_iter().map(number);
    match ty {
        ElementType::Float(DType::F32) => numbers.flat_map(f32::to_ne_bytes).collect(),
        ElementType::Float(DType::F16) => {
            numbers.flat_map(|number| half::f16::from_f32(number).to_ne_bytes()).collect()
        }
        ElementType::Float(DType::Bf16) => {
            numbers.flat_map(|number| half::bf16::from_f32(number).to_ne_bytes()).collect()
        }
        ElementType::Int(_) | ElementType::U32 => unreachable!("these are no numbers of a kernel"),
    }
}

/// Positions at which indices are bad, each with its number of an index and what that is: the last
/// index at an earlier position, the first one at a later one. `None` where every number that the
/// types hold is good.
pub(super) fn bad(terms: &[Term], positions: u64) -> Option<[(u64, usize, i64); 2]> {
    let beyond = |(number, term): (usize, &Term)| Some((number, number_beyond(term)?));
    let mut able = terms.iter().enumerate().filter_map(beyond);
    let first = able.next()?;
    let last = able.next_back().unwrap_or(first);
    Some([(positions / 3, last.0, last.1), (positions * 2 / 3, first.0, first.1)])
}

/// A number that an index may not be: one that misses its bound by as little as possible, so that
/// whoever does not look at it is likely to read memory that is there.
fn number_beyond(term: &Term) -> Option<i64> {
    let bound = i64::try_from(term.bound).ok()?;
    let above = [Some(bound), bound.checked_add(1)];
    let mut numbers = above.into_iter().flatten().chain([-1, -2]);
    numbers.find(|&number| term.ty.holds(number) && term.pad != Some(number))
}

/// An index of these numbers. At positions where any index is `bad` those that are not are 0.
pub(super) fn index(
    stream: &Stream,
    term: &Term,
    number: usize,
    mut numbers: Vec<i64>,
    bad: &[(u64, usize, i64)],
) -> Result<AnyTensor, Error> {
    let positions = numbers.len() as u64;
    if let Some(pad) = term.pad {
        numbers.iter_mut().skip(PADDED / 2).step_by(PADDED).for_each(|number| *number = pad);
    }
    bad.iter().for_each(|&(position, ..)| numbers[position as usize] = 0);
    let own = bad.iter().filter(|(_, of, _)| *of == number);
    own.for_each(|&(position, _, beyond)| numbers[position as usize] = beyond);
    // The numbers are below a bound that the type can hold, or the pad or a bad one, which it holds too.
    match term.ty {
        IntType::U8 => {
            let numbers: Vec<u8> = numbers.into_iter().map(|number| number as u8).collect();
            AnyTensor::from_slice(stream, &numbers, positions, 1)
        }
        IntType::I32 => {
            let numbers: Vec<i32> = numbers.into_iter().map(|number| number as i32).collect();
            AnyTensor::from_slice(stream, &numbers, positions, 1)
        }
        IntType::I64 => AnyTensor::from_slice(stream, &numbers, positions, 1),
    }
}

/// A copy of a tensor of the CPU on a device.
pub(super) fn moved(stream: &Stream, tensor: AnyView<'_>) -> Result<AnyTensor, Error> {
    let mut copy = AnyTensor::uninit(stream, tensor.element_type(), tensor.row_count(), tensor.column_count())?;
    let bytes = tensor.host_bytes().ok_or_else(|| tensor.wrong_device("the reference", stream))?;
    copy.view_mut().upload(stream, bytes)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_long_rows_differ_too() {
        for (columns, rows) in [(1, 97), (16, 97), (10_810, 97), (10_811, 89), (16_384, 61), (65_536, 13), (1 << 30, 3)]
        {
            assert_eq!(random_rows(columns), rows, "{columns} columns");
        }
    }

    #[test]
    fn a_bad_number_is_one_that_the_type_holds_and_no_pad() {
        let term = |ty, bound, pad| Term { ty, factor: 1, bound, pad };
        for (term, number) in [
            (term(IntType::I64, 3, Some(-1)), Some(3)),
            (term(IntType::U8, 3, Some(3)), Some(4)),
            (term(IntType::U8, 256, None), None),
            (term(IntType::U8, 255, Some(255)), None),
            (term(IntType::I32, 1 << 31, Some(-1)), Some(-2)),
        ] {
            assert_eq!(number_beyond(&term), number, "{term:?}");
        }
        let terms = [term(IntType::I64, 2, None), term(IntType::U8, 256, None), term(IntType::I64, 3, None)];
        assert_eq!(bad(&terms, 300), Some([(100, 2, 3), (200, 0, 2)]));
        assert_eq!(bad(&terms, 1), Some([(0, 2, 3), (0, 0, 2)]));
        assert_eq!(bad(&terms[1..2], 300), None);
    }
}
