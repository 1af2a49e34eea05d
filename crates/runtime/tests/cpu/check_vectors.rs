//! The order-revealing sums of the contract, and other sums with known answers.

use half::{bf16, f16};
use rowloom_codegen::{Accumulate, DType};

use super::kernels::*;

/// The one row of a segment sum over all positions, H = 1.
fn one_row<E: Bits>(values: &[E], accumulate: Accumulate) -> u32 {
    let token = vec![0_i64; values.len()];
    let inputs = [vec![matrix(values, 1)], vec![column(&token)]];
    let stream = cpu();
    let outputs = call(&stream, segments(accumulate).forward(), &inputs, &[("R", 1)], None, None).unwrap();
    output::<E>(&stream, &outputs[0])[0][0]
}

fn then<E: Copy>(first: E, count: usize, rest: E) -> Vec<E> {
    std::iter::once(first).chain(std::iter::repeat_n(rest, count)).collect()
}

#[test]
fn f32_two_to_the_24_and_511_ones() {
    let values = then(16_777_216_f32, 511, 1.0);
    assert_eq!(one_row(&values, Accumulate::F32), 16_777_472_f32.to_bits());
    assert_eq!(one_row(&values, Accumulate::F64), 16_777_728_f32.to_bits());
}

#[test]
fn bf16_two_to_the_24_510_ones_and_back() {
    let one = bf16::from_f32(1.0);
    let mut values = then(bf16::from_f32(16_777_216.0), 510, one);
    values.push(bf16::from_f32(-16_777_216.0));
    assert_eq!(one_row(&values, Accumulate::F32), bf16::from_f32(255.0).bits());
    assert_eq!(one_row(&values, Accumulate::F64), bf16::from_f32(510.0).bits());
}

#[test]
fn f16_sums_do_not_stick() {
    let values = vec![f16::from_f32(0.01); 12_500];
    let sum = f16::from_bits(one_row(&values, Accumulate::F32) as u16).to_f32();
    assert!((sum - 125.0).abs() < 0.1, "{sum}");
    let large = [65504.0, 65504.0, -65504.0].map(f16::from_f32);
    assert_eq!(one_row(&large, Accumulate::F32), f16::from_f32(65504.0).bits());
}

#[test]
fn bf16_sums_do_not_stop_at_256() {
    let values = vec![bf16::from_f32(1.0); 1000];
    assert_eq!(one_row(&values, Accumulate::F32), bf16::from_f32(1000.0).bits());
}

#[test]
fn subnormals_are_kept() {
    let least = bf16::from_bits(1);
    assert_eq!(one_row(&[least, least], Accumulate::F32), 2);
    assert_eq!(one_row(&[1.0e-40_f32], Accumulate::F32), 1.0e-40_f32.to_bits());
}

#[test]
fn a_sum_of_negative_zeros_is_positive() {
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        assert_eq!(one_row(&[-0.0_f32; 300], accumulate), 0);
        assert_eq!(one_row(&[bf16::NEG_ZERO; 3], accumulate), 0);
        assert_eq!(one_row(&[f16::NEG_ZERO; 3], accumulate), 0);
    }
}

#[test]
fn a_nan_is_canonical_and_infinities_cancel_to_one() {
    let payload = f32::from_bits(0xFF81_0001);
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        assert_eq!(one_row(&[1.0, payload], accumulate), 0x7FC0_0000);
        assert_eq!(one_row(&[f32::INFINITY, f32::NEG_INFINITY], accumulate), 0x7FC0_0000);
        assert_eq!(one_row(&[bf16::from_bits(0xFFC1)], accumulate), 0x7FC0);
        assert_eq!(one_row(&[f16::from_bits(0xFD01)], accumulate), 0x7E00);
    }
}

#[test]
fn one_rounding_to_the_type_of_the_gradient() {
    // 257 needs nine bits: an f32 gradient keeps it, a bf16 one ties to even.
    let ones = vec![bf16::from_f32(1.0); 257];
    let zeros = vec![0_i64; 257];
    let stream = cpu();
    let backward = all(&adaln(Accumulate::F32));
    let inputs = [vec![column(&zeros)], vec![column(&zeros)], vec![matrix(&ones, 1); 6]];
    let stored = call(&stream, &backward, &inputs, &[("R", 3)], None, None).unwrap();
    assert_eq!(output::<bf16>(&stream, &stored[0])[0][..6], [bf16::from_f32(256.0).bits(); 6]);
    let main = call(&stream, &backward, &inputs, &[("R", 3)], Some(DType::F32), None).unwrap();
    assert_eq!(output::<f32>(&stream, &main[0])[0][..6], [257_f32.to_bits(); 6]);
    assert_eq!(output::<f32>(&stream, &main[0])[0][6..], [0; 12]);
}
