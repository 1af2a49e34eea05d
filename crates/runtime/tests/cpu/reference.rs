//! What the executor must compute, written as the contract reads: one scalar at
//! a time, no blocking, no plans.

use rowloom_codegen::Accumulate;

use super::kernels::Bits;

/// A reproducible sequence of 64 random bits each.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Finite values of many magnitudes and both signs.
    pub fn value(&mut self) -> f32 {
        let magnitude = [1e-3, 0.1, 1.0, 10.0, 3000.0][self.below(5) as usize];
        (self.next() as i32 as f64 / f64::from(i32::MAX) * magnitude) as f32
    }

    pub fn values<E: Bits>(&mut self, length: usize, from: impl Fn(f32) -> E) -> Vec<E> {
        (0..length).map(|_| from(self.value())).collect()
    }
}

/// One element of a table gradient: the sum of `values` in positions' order, in
/// chains of `block`; not yet rounded to its stored type.
pub fn sum(values: &[f32], block: usize, accumulate: Accumulate) -> f64 {
    match accumulate {
        Accumulate::F32 => {
            let mut total = 0.0_f32;
            let mut at = 0;
            while at < values.len() {
                let mut chain = 0.0_f32;
                let end = (at + block).min(values.len());
                while at < end {
                    chain += values[at];
                    at += 1;
                }
                total += chain;
            }
            total.into()
        }
        Accumulate::F64 => {
            let mut total = 0.0_f64;
            let mut at = 0;
            while at < values.len() {
                let mut chain = 0.0_f64;
                let end = (at + block).min(values.len());
                while at < end {
                    chain += f64::from(values[at]);
                    at += 1;
                }
                total += chain;
            }
            total
        }
    }
}

/// Rounds to nearest even in a format, by scaling to an integer: exact, once.
pub fn round<E: Bits>(value: f64) -> u32 {
    let (mantissa, least_exponent, largest, nan, infinity) = match std::any::type_name::<E>() {
        "f32" => (23, -149, f64::from(f32::MAX), 0x7FC0_0000, 0x7F80_0000),
        name if name.ends_with("bf16") => (7, -133, f64::from(half::bf16::MAX), 0x7FC0, 0x7F80),
        _ => (10, -24, f64::from(half::f16::MAX), 0x7E00, 0x7C00_u32),
    };
    let sign = if size_of::<E>() == 4 { 1 << 31 } else { 1 << 15 };
    if value.is_nan() {
        return nan;
    }
    let sign = if value.is_sign_negative() { sign } else { 0 };
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return sign;
    }
    // The exponent of the last place of the result.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023 - mantissa).max(least_exponent);
    let scaled = magnitude * 2f64.powi(-exponent / 2) * 2f64.powi(-exponent - -exponent / 2);
    let rounded = scaled.round_ties_even();
    let result = rounded * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
    if result > largest {
        return sign | infinity;
    }
    // Every finite result has one pattern, in the order of the values.
    let whole = rounded as u32;
    let above = (exponent - least_exponent) as u32;
    sign | (whole + (above << mantissa))
}
