//! Ordered sums against the scalar reference.

use half::{bf16, f16};
use rowloom_codegen::{Accumulate, DType};
use rowloom_runtime::Declaration;

use super::kernels::*;
use super::reference::{Random, round, sum};

struct Layout {
    timestep: Vec<i64>,
    modality: Vec<i64>,
    timesteps: u64,
}

impl Layout {
    fn random(positions: usize, timesteps: u64, random: &mut Random) -> Layout {
        let timestep = (0..positions).map(|_| random.below(timesteps) as i64).collect();
        let modality = (0..positions).map(|_| random.below(3) as i64).collect();
        Layout { timestep, modality, timesteps }
    }

    /// Nearly all positions on one row, and rows that nobody names.
    fn hot(positions: usize, random: &mut Random) -> Layout {
        let timestep = (0..positions).map(|_| i64::from(random.below(50) == 0)).collect();
        Layout { timestep, modality: vec![0; positions], timesteps: 3 }
    }

    fn positions_of(&self, row: usize) -> Vec<usize> {
        (0..self.timestep.len()).filter(|&s| (self.timestep[s] * 3 + self.modality[s]) as usize == row).collect()
    }
}

fn check<E: Bits, G: Bits>(
    layout: &Layout,
    hidden: usize,
    accumulate: Accumulate,
    gradient: Option<DType>,
    values: impl Fn(&mut Random) -> E,
    random: &mut Random,
) {
    let positions = layout.timestep.len();
    let d_out: Vec<Vec<E>> = (0..6).map(|_| (0..positions * hidden).map(|_| values(random)).collect()).collect();
    let chunks = d_out.iter().map(|chunk| matrix(chunk, hidden as u64)).collect();
    let inputs = [vec![column(&layout.timestep)], vec![column(&layout.modality)], chunks];
    let stream = cpu();
    let rows = 3 * layout.timesteps;
    let outputs = call(&stream, &all(&adaln(accumulate)), &inputs, &[("R", rows)], gradient, None).unwrap();
    let found = output::<G>(&stream, &outputs[0]).concat();
    for row in 0..rows as usize {
        let positions = layout.positions_of(row);
        for (chunk, d_out) in d_out.iter().enumerate() {
            for h in 0..hidden {
                let column: Vec<f32> = positions.iter().map(|&s| d_out[s * hidden + h].wide()).collect();
                let expected = round::<G>(sum(&column, 256, accumulate));
                assert_eq!(found[(row * 6 + chunk) * hidden + h], expected, "row {row}, chunk {chunk}, column {h}");
            }
        }
    }
}

#[test]
fn every_type_and_accumulator_equals_the_reference() {
    let mut random = Random(2);
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        for (positions, timesteps, hidden) in [(1, 1, 1), (3, 3, 2), (257, 1, 7), (2000, 3, 5)] {
            let layout = Layout::random(positions, timesteps, &mut random);
            let (f, h, b) =
                (Random::value, |r: &mut Random| f16::from_f32(r.value()), |r: &mut Random| bf16::from_f32(r.value()));
            check::<f32, f32>(&layout, hidden, accumulate, None, f, &mut random);
            check::<f16, f16>(&layout, hidden, accumulate, None, h, &mut random);
            check::<bf16, bf16>(&layout, hidden, accumulate, None, b, &mut random);
            check::<bf16, f32>(&layout, hidden, accumulate, Some(DType::F32), b, &mut random);
            check::<f32, bf16>(&layout, hidden, accumulate, Some(DType::Bf16), f, &mut random);
        }
    }
}

#[test]
fn a_hot_row_and_empty_rows() {
    let mut random = Random(3);
    let layout = Layout::hot(5000, &mut random);
    let values = |r: &mut Random| bf16::from_f32(r.value());
    check::<bf16, bf16>(&layout, 3, Accumulate::F32, None, values, &mut random);
    check::<bf16, bf16>(&layout, 3, Accumulate::F64, None, values, &mut random);
}

#[test]
fn any_pattern_of_bits() {
    let mut random = Random(4);
    let layout = Layout::random(400, 2, &mut random);
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        check::<f32, f32>(&layout, 4, accumulate, None, |r| f32::from_bits(r.next() as u32), &mut random);
        check::<bf16, bf16>(&layout, 4, accumulate, None, |r| bf16::from_bits(r.next() as u16), &mut random);
        check::<f16, f16>(&layout, 4, accumulate, None, |r| f16::from_bits(r.next() as u16), &mut random);
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    let timestep: Vec<i64> = (0..90).map(|s| s % 3).collect();
    let modality: Vec<i64> = (0..90).map(|s| s / 3 % 3).collect();
    let d_out: Vec<f32> =
        (0..90).flat_map(|s| if timestep[s] * 3 + modality[s] == 4 { [1.0, f32::NAN] } else { [1.0, 1.0] }).collect();
    let inputs = [vec![column(&timestep)], vec![column(&modality)], vec![matrix(&d_out, 2); 6]];
    let stream = cpu();
    let outputs = call(&stream, &all(&adaln(Accumulate::F32)), &inputs, &[("R", 9)], None, None).unwrap();
    let found = output::<f32>(&stream, &outputs[0]).concat();
    for (at, &bits) in found.iter().enumerate() {
        let nan = at / 12 == 4 && at % 2 == 1;
        assert_eq!(bits, if nan { 0x7FC0_0000 } else { 10_f32.to_bits() }, "element {at}");
    }
}

#[test]
fn sums_of_one_table_are_added_in_the_accumulator() {
    let mut random = Random(5);
    let declared = Declaration::from_ir(TWO_ROWS).unwrap();
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let order = rowloom_codegen::ir::Order { block: 4, accumulate };
        let backward = all(&declared.with_order(order).unwrap());
        let first: Vec<i32> = (0..100).map(|_| random.below(5) as i32).collect();
        let second: Vec<u8> = (0..100).map(|_| random.below(5) as u8).collect();
        let d: Vec<Vec<bf16>> = (0..3).map(|_| random.values(300, bf16::from_f32)).collect();
        let inputs = [
            vec![column(&first)],
            vec![column(&second)],
            vec![matrix(&d[0], 3)],
            vec![matrix(&d[1], 3), matrix(&d[2], 3)],
        ];
        let stream = cpu();
        let outputs = call(&stream, &backward, &inputs, &[("R", 5)], None, None).unwrap();
        let found = output::<bf16>(&stream, &outputs[0]).concat();
        for row in 0..5 {
            for h in 0..3 {
                let at = |s: usize| s * 3 + h;
                let one: Vec<f32> = (0..100).filter(|&s| first[s] == row).map(|s| d[0][at(s)].to_f32()).collect();
                // The last use of a value comes first.
                let two = (0..100).filter(|&s| i32::from(second[s]) == row);
                let two: Vec<f32> = two.map(|s| d[2][at(s)].to_f32() + d[1][at(s)].to_f32()).collect();
                let (left, right) = (sum(&one, 4, accumulate), sum(&two, 4, accumulate));
                let total = match accumulate {
                    Accumulate::F32 => f64::from(left as f32 + right as f32),
                    Accumulate::F64 => left + right,
                };
                assert_eq!(found[row as usize * 3 + h], round::<bf16>(total), "row {row}, column {h}");
            }
        }
    }
}
