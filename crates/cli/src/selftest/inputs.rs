//! The inputs of a case, by integer arithmetic alone: the same bits on every machine.

use bytemuck::Pod;
use half::{bf16, f16};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rowloom_codegen::ir::InputKind;
use rowloom_codegen::{DType, IntType, Spec};
use rowloom_op_adaln::random;
use rowloom_runtime::{AnyTensor, AnyView, ElementType, Error, Stream};

use super::cases::Case;

/// Seed of everything.
const SEED: u64 = 20;

/// Every so many positions one has no row, where the index declares a pad.
const PADDED: usize = 11;

/// A tensor on a device: in a buffer of its own, whole or as rows apart from each other.
pub struct Placed {
    buffer: AnyTensor,
    rows: u64,
    columns: u64,
    apart: bool,
}

/// What lies between rows that are apart: bytes that no result may hold.
const BETWEEN: u8 = 0xFF;

/// Elements before the first row and between rows that are apart: no access is wider than one.
const OFFSET: u64 = 1;
const GAP: u64 = 3;

impl Placed {
    /// A tensor whose bytes are all `BETWEEN`.
    pub fn empty(stream: &Stream, ty: ElementType, rows: u64, columns: u64, apart: bool) -> Result<Placed, Error> {
        let size = if apart { OFFSET + rows * (columns + GAP) } else { rows * columns };
        let mut buffer = AnyTensor::uninit(stream, ty, 1, size)?;
        buffer.view_mut().fill(stream, BETWEEN)?;
        Ok(Placed { buffer, rows, columns, apart })
    }

    fn new<E: rowloom_runtime::Element + Pod>(
        stream: &Stream,
        elements: &[E],
        rows: u64,
        apart: bool,
    ) -> Result<Placed, Error> {
        let columns = elements.len() as u64 / rows;
        if !apart {
            let buffer = AnyTensor::from_slice(stream, elements, 1, elements.len() as u64)?;
            return Ok(Placed { buffer, rows, columns, apart });
        }
        let between = vec![BETWEEN; size_of::<E>()];
        let between: E = bytemuck::pod_read_unaligned(&between);
        let mut whole = vec![between; (OFFSET + rows * (columns + GAP)) as usize];
        for (row, from) in elements.chunks_exact(columns as usize).enumerate() {
            let start = OFFSET as usize + row * (columns + GAP) as usize;
            whole[start..start + from.len()].copy_from_slice(from);
        }
        let buffer = AnyTensor::from_slice(stream, &whole, 1, whole.len() as u64)?;
        Ok(Placed { buffer, rows, columns, apart })
    }

    /// Offset and row stride.
    fn place(&self) -> (u64, u64) {
        if self.apart { (OFFSET, self.columns + GAP) } else { (0, self.columns) }
    }

    /// It, to be read.
    pub fn view(&self) -> Result<AnyView<'_>, Error> {
        let (offset, stride) = self.place();
        self.buffer.view().strided(self.rows, self.columns, [stride, 1], offset)
    }

    /// It, to be written.
    pub fn view_mut(&mut self) -> Result<rowloom_runtime::AnyViewMut<'_>, Error> {
        let (offset, stride) = self.place();
        self.buffer.view_mut().strided(self.rows, self.columns, [stride, 1], offset)
    }

    /// Makes all of it `BETWEEN` again.
    pub fn clear(&mut self, stream: &Stream) -> Result<(), Error> {
        self.buffer.view_mut().fill(stream, BETWEEN)
    }

    /// All bytes of its buffer, what lies between its rows too.
    pub fn bytes(&self, stream: &Stream) -> Result<Vec<u8>, Error> {
        let view = self.buffer.view();
        fn little<E: rowloom_runtime::Element + Pod>(view: &AnyView<'_>, stream: &Stream) -> Result<Vec<u8>, Error> {
            Ok(bytemuck::cast_slice(&view.to_vec::<E>(stream)?).to_vec())
        }
        match view.element_type() {
            ElementType::Float(DType::F32) => little::<f32>(&view, stream),
            ElementType::Float(DType::F16) => little::<f16>(&view, stream),
            ElementType::Float(DType::Bf16) => little::<bf16>(&view, stream),
            ElementType::Int(IntType::U8) => little::<u8>(&view, stream),
            ElementType::Int(IntType::I32) => little::<i32>(&view, stream),
            ElementType::Int(IntType::I64) => little::<i64>(&view, stream),
            ElementType::U32 => little::<u32>(&view, stream),
        }
    }
}

/// The inputs of a case where the stream's device can read them: per input its tensors.
pub fn place(stream: &Stream, case: &Case, spec: &Spec) -> Result<Vec<Vec<Placed>>, Error> {
    let timesteps = spec.counts.iter().copied().max().map_or(1, |rows| rows.div_ceil(3));
    let packed = case.packing.indices(case.positions, timesteps, SEED);
    let indices = case.kernel.inputs.iter().filter(|input| input.is_index()).count();
    let mut at = 0;
    let mut inputs = Vec::new();
    for (number, input) in case.kernel.inputs.iter().enumerate() {
        let generator =
            |element: u32| random::generator(SEED, random::tensor((number as u64) << 8 | u64::from(element)));
        let tensors = (0..input.count).map(|element| match input.kind {
            InputKind::Rows(ty) => {
                let count = case.positions * case.hidden;
                values(stream, &mut generator(element), spec.float(ty), count, case.positions, case)
            }
            InputKind::Table { ty, rows, chunks } => {
                let rows = spec.extent(rows);
                let count = rows * u64::from(chunks) * case.hidden;
                values(stream, &mut generator(element), spec.float(ty), count, rows, case)
            }
            InputKind::Index { ty, bound, pad } => {
                let bound = spec.extent(bound) as i64;
                let numbers =
                    packed.timestep.iter().zip(&packed.modality).map(|(timestep, modality)| match (indices, at) {
                        (1, _) => (timestep * 3 + modality) % bound,
                        (_, 0) => timestep % bound,
                        (_, at) => (modality + at - 1) % bound,
                    });
                let mut numbers: Vec<i64> = numbers.collect();
                if let Some(pad) = pad {
                    numbers.iter_mut().skip(PADDED - 1).step_by(PADDED).for_each(|number| *number = pad);
                }
                at += 1;
                index(stream, spec.int(ty), &numbers, case.apart)
            }
        });
        inputs.push(tensors.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(inputs)
}

fn index(stream: &Stream, ty: IntType, numbers: &[i64], apart: bool) -> Result<Placed, Error> {
    let rows = numbers.len() as u64;
    match ty {
        // The bounds and pads of a case fit its types.
        IntType::U8 => {
            Placed::new(stream, &numbers.iter().map(|&number| number as u8).collect::<Vec<_>>(), rows, apart)
        }
        IntType::I32 => {
            Placed::new(stream, &numbers.iter().map(|&number| number as i32).collect::<Vec<_>>(), rows, apart)
        }
        IntType::I64 => Placed::new(stream, numbers, rows, apart),
    }
}

fn values(
    stream: &Stream,
    random: &mut ChaCha8Rng,
    dtype: DType,
    count: u64,
    rows: u64,
    case: &Case,
) -> Result<Placed, Error> {
    // What is only moved keeps every encoding; what is summed stays finite, so that a digest tells
    // more than where a NaN is.
    let special = !case.kernel.sums();
    let numbers = (0..count).map(|_| random.next_u32());
    match dtype {
        DType::F32 => {
            let specials = [0x8000_0000, 0x0000_0001, 0x7F80_0000, 0x7FA1_2345, 0x8040_0000].map(f32::from_bits);
            let numbers: Vec<f32> = numbers.map(|bits| value(bits, special, specials, |value| value)).collect();
            Placed::new(stream, &numbers, rows, case.apart)
        }
        DType::F16 => {
            let specials = [0x8000, 0x0001, 0x7C00, 0x7D23, 0x8100].map(f16::from_bits);
            let numbers: Vec<f16> = numbers.map(|bits| value(bits, special, specials, f16::from_f32)).collect();
            Placed::new(stream, &numbers, rows, case.apart)
        }
        DType::Bf16 => {
            let specials = [0x8000, 0x0001, 0x7F80, 0x7F81, 0x8040].map(bf16::from_bits);
            let numbers: Vec<bf16> = numbers.map(|bits| value(bits, special, specials, bf16::from_f32)).collect();
            Placed::new(stream, &numbers, rows, case.apart)
        }
    }
}

/// Random bits as a number: sign and fraction as they are, the exponent one of twelve around 1;
/// with `special` one in 256 a zero with a sign, a subnormal, an infinity or a NaN with a payload.
fn value<E>(bits: u32, special: bool, specials: [E; 5], round: impl Fn(f32) -> E) -> E {
    let drawn = bits >> 23 & 0xFF;
    if special && drawn == 0xFF {
        let mut specials = specials.into_iter();
        let which = bits as usize % specials.len();
        return specials.nth(which).unwrap_or_else(|| round(0.0));
    }
    round(f32::from_bits((bits & 0x807F_FFFF) | (121 + drawn % 12) << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_bit_by_bit() {
        let draw = |bits, special| value(bits, special, [1.0, 2.0, 3.0, 4.0, 5.0], |value| value).to_bits();
        assert_eq!(draw(0x8000_0001, true), 0xBC80_0001);
        assert_eq!(draw(0x7FFF_FFFF, false), 0x3E7F_FFFF);
        assert_eq!(draw(0x7FFF_FFFF, true), [1.0_f32, 2.0, 3.0, 4.0, 5.0][0x7FFF_FFFF % 5].to_bits());
    }

    #[test]
    fn rows_apart_are_the_same_rows() {
        let stream = rowloom_runtime::Device::cpu().stream().unwrap();
        let elements: Vec<f32> = (0..12u8).map(f32::from).collect();
        for apart in [false, true] {
            let placed = Placed::new(&stream, &elements, 4, apart).unwrap();
            assert_eq!(placed.view().unwrap().to_vec::<f32>(&stream).unwrap(), elements);
            let whole = placed.bytes(&stream).unwrap();
            assert_eq!(whole.len(), if apart { (1 + 4 * 6) * 4 } else { 48 });
        }
    }
}
