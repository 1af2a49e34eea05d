//! The host texts of the conversions against references that share nothing with them: the
//! crate `half`, and integer arithmetic on the encoding of an f64.

use half::{bf16, f16};

use super::{Bench, source};

/// Encoding of `value` rounded to nearest even in a format of so many bits; integers only.
fn nearest(value: f64, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
    if value.is_nan() {
        return infinity | 1 << (fraction_bits - 1);
    }
    let sign = value.to_bits() >> 63 << (exponent_bits + fraction_bits);
    let exponent = (value.to_bits() >> 52 & 0x7FF) as i32;
    let fraction = value.to_bits() & ((1 << 52) - 1);
    // |value| = significand · 2^scale
    let (significand, scale) = match exponent {
        0 => (fraction, -1074),
        0x7FF => return sign | infinity,
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    if significand == 0 {
        return sign;
    }
    let (bias, fraction_width) = ((1 << (exponent_bits - 1)) - 1, fraction_bits as i32);
    let top = scale + 63 - significand.leading_zeros() as i32;
    // Numbers of the format near `value` are multiples of 2^quantum.
    let quantum = top.max(1 - bias) - fraction_width;
    let multiple = match quantum - scale {
        shift @ ..=0 => significand << -shift,
        shift @ 1..=54 => {
            let (floor, rest, half) = (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1));
            floor + u64::from(rest > half || rest == half && floor % 2 == 1)
        }
        // Less than half of the least number.
        55.. => 0,
    };
    // A carry out of the fraction makes the exponent one larger, as it should.
    let encoding = (((quantum + fraction_width + bias - 1) as u64) << fraction_bits) + multiple;
    sign | encoding.min(infinity)
}

/// `bf16`, `f16` and `f32` encodings of each value, as the primitives round them.
fn rounded<T: bytemuck::Pod>(from: &str, values: &[T]) -> (Vec<u16>, Vec<u16>, Vec<u32>) {
    let body = "\
RL_ENTRY(256) kernel(const FROM* values, rl_bf16* bf16, rl_f16* f16, float* f32, rl_u64 count) {
    rl_u64 at = rl_block() * 256 + rl_thread();
    if (at >= count) return;
    FROM value = rl_load<FROM>(values + at);
    rl_store(bf16 + at, rl_bf16_from_KIND(value));
    rl_store(f16 + at, rl_f16_from_KIND(value));
    rl_store(f32 + at, rl_f32_from_KIND(value));
}
";
    let kind = if from == "float" { "f32" } else { "f64" };
    let count = values.len();
    let source = source("round", 256, 5, &body.replace("FROM", from).replace("KIND", kind));
    let bench = Bench::new();
    let (to_bf16, to_f16) = (bench.tensor(&vec![1u16; count]), bench.tensor(&vec![1u16; count]));
    let to_f32 = bench.tensor(&vec![1u32; count]);
    let arguments = [bench.tensor(values), to_bf16, to_f16, to_f32, count as u64];
    bench.run(&source, 1, count.div_ceil(256) as u64, &arguments).expect("runs");
    (bench.read(to_bf16, count), bench.read(to_f16, count), bench.read(to_f32, count))
}

#[test]
fn every_encoding_of_16_bits_widens_exactly() {
    let body = "\
RL_ENTRY(256) kernel(const rl_u16* bits, float* from_bf16, float* from_f16) {
    rl_u64 at = rl_block() * 256 + rl_thread();
    rl_store(from_bf16 + at, rl_f32_from_bf16(rl_load<rl_bf16>(bits + at)));
    rl_store(from_f16 + at, rl_f32_from_f16(rl_load<rl_f16>(bits + at)));
}
";
    let bench = Bench::new();
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let (from_bf16, from_f16) = (bench.tensor(&vec![1f32; 1 << 16]), bench.tensor(&vec![1f32; 1 << 16]));
    let arguments = [bench.tensor(&bits), from_bf16, from_f16];
    bench.run(&source("widen", 256, 3, body), 1, 256, &arguments).expect("runs");
    let (from_bf16, from_f16) = (bench.read::<f32>(from_bf16, 1 << 16), bench.read::<f32>(from_f16, 1 << 16));
    for (&bits, (found_bf16, found_f16)) in bits.iter().zip(from_bf16.into_iter().zip(from_f16)) {
        for (found, expected) in
            [(found_bf16, bf16::from_bits(bits).to_f32()), (found_f16, f16::from_bits(bits).to_f32())]
        {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{bits:#06x} widens to {found}, not {expected}");
        }
    }
}

/// Every number of 19 bits, and what decides a rounding below: ties, and both sides of them.
#[test]
fn f32_rounds_to_nearest_even_and_every_nan_to_one() {
    let low = [0u32, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF];
    let values: Vec<f32> = (0..1u32 << 19).flat_map(|high| low.map(|low| f32::from_bits(high << 13 | low))).collect();
    let (to_bf16, to_f16, to_f32) = rounded("float", &values);
    for (at, &value) in values.iter().enumerate() {
        let expected = if value.is_nan() {
            (0x7FC0, 0x7E00, 0x7FC0_0000)
        } else {
            (bf16::from_f32(value).to_bits(), f16::from_f32(value).to_bits(), value.to_bits())
        };
        assert_eq!((to_bf16[at], to_f16[at], to_f32[at]), expected, "{:#010x}", value.to_bits());
        // The other reference, which the test below relies on.
        let wide = f64::from(value);
        let exact = (nearest(wide, 8, 7) as u16, nearest(wide, 5, 10) as u16, nearest(wide, 8, 23) as u32);
        assert_eq!(exact, expected, "{:#010x}", value.to_bits());
    }
}

/// Numbers of each format, the middles between neighbours, and the f64 next to all of these:
/// where rounding twice goes wrong.
#[test]
fn f64_rounds_once() {
    let mut values = vec![f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX, f64::INFINITY];
    values.extend([f64::NAN, f64::from_bits(0x7FF0_0000_0000_0001), f64::from_bits(0x7FFF_FFFF_FFFF_FFFF)]);
    let mut around = |number: f64, next: f64| {
        let next = if next.is_finite() { next } else { number };
        let middle = number + (next - number) / 2.0;
        for value in [number, middle] {
            values.extend([value.next_down(), value, value.next_up()]);
        }
    };
    for bits in 0..0x7F80 {
        around(bf16::from_bits(bits).to_f64(), bf16::from_bits(bits + 1).to_f64());
    }
    for bits in 0..0x7C00 {
        around(f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
    }
    for bits in (0..0x7F80u32).flat_map(|high| [0, 1, 0x7FFF, 0xFFFE, 0xFFFF].map(|low| high << 16 | low)) {
        around(f32::from_bits(bits).into(), f32::from_bits(bits + 1).into());
    }
    // From half a spacing beyond the largest number on: infinity.
    for (largest, half_spacing) in
        [(65504.0, 16.0), (bf16::MAX.to_f64(), 2f64.powi(119)), (f32::MAX.into(), 2f64.powi(103))]
    {
        let limit: f64 = largest + half_spacing;
        values.extend([limit.next_down(), limit, limit.next_up()]);
    }
    values.extend(values.clone().iter().map(|value| -value));
    let (to_bf16, to_f16, to_f32) = rounded("double", &values);
    for (at, &value) in values.iter().enumerate() {
        let found = (to_bf16[at], to_f16[at], to_f32[at]);
        let expected = (nearest(value, 8, 7) as u16, nearest(value, 5, 10) as u16, nearest(value, 8, 23) as u32);
        assert_eq!(found, expected, "{value:e} {:#018x}", value.to_bits());
    }
}
