//! Element types as numbers: exact widening, rounding once.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::element::Float;

/// The NaN that rounding stores, whatever NaN it meets: engines agree on bytes.
pub(crate) const NAN_BF16: u16 = 0x7FC0;
/// See [`NAN_BF16`].
pub(crate) const NAN_F16: u16 = 0x7E00;
/// See [`NAN_BF16`].
pub(crate) const NAN_F32: u32 = 0x7FC0_0000;

/// A type of tensors that sums read and results are rounded to.
pub(crate) trait Stored: Float {
    /// Widens exactly, element by element.
    fn widen(from: &[Self], to: &mut [f32]);

    /// To nearest even; a NaN becomes the canonical one.
    fn round(value: f32) -> Self;
}

impl Stored for f32 {
    fn widen(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn round(value: f32) -> f32 {
        if value.is_nan() { f32::from_bits(NAN_F32) } else { value }
    }
}

impl Stored for bf16 {
    fn widen(from: &[bf16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }

    fn round(value: f32) -> bf16 {
        if value.is_nan() { bf16::from_bits(NAN_BF16) } else { bf16::from_f32(value) }
    }
}

impl Stored for f16 {
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn round(value: f32) -> f16 {
        if value.is_nan() { f16::from_bits(NAN_F16) } else { f16::from_f32(value) }
    }
}

/// A type that sums over positions are chained and folded in.
pub(crate) trait Accumulator: Copy + Default + Send + Sync + std::ops::AddAssign {
    /// Widens exactly.
    fn of(value: f32) -> Self;

    /// Rounds to nearest even once; a NaN becomes the canonical one.
    fn stored_as<E: Stored>(self) -> E;
}

impl Accumulator for f32 {
    fn of(value: f32) -> f32 {
        value
    }

    fn stored_as<E: Stored>(self) -> E {
        E::round(self)
    }
}

impl Accumulator for f64 {
    fn of(value: f32) -> f64 {
        value.into()
    }

    fn stored_as<E: Stored>(self) -> E {
        match E::DTYPE {
            rowloom_codegen::DType::F32 => E::round(self as f32),
            // f32 has more than two bits beyond f16 and bf16: what is rounded to odd
            // on the way rounds as the f64 itself would.
            rowloom_codegen::DType::F16 | rowloom_codegen::DType::Bf16 => E::round(round_to_odd(self)),
        }
    }
}

/// The f32 with an odd last bit next to `value`, or `value` where an f32 holds it.
pub(crate) fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let error = value - f64::from(nearest);
    let bits = nearest.to_bits();
    // NaN, infinities and exact values stay; an odd neighbour is the answer already.
    if error == 0.0 || error.is_nan() || bits & 1 == 1 {
        return nearest;
    }
    if nearest.is_infinite() {
        // Beyond the largest f32, which is odd.
        return f32::MAX.copysign(nearest);
    }
    if nearest == 0.0 {
        return f32::from_bits(1).copysign(value as f32);
    }
    let away_from_zero = (error > 0.0) == (value > 0.0);
    f32::from_bits(if away_from_zero { bits + 1 } else { bits - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds by comparing with both neighbours: the definition, for finite results.
    fn nearest_even(value: f64, all: &[(f64, u16)]) -> u16 {
        let above = all.partition_point(|&(candidate, _)| candidate < value);
        let candidates = &all[above.saturating_sub(1)..(above + 1).min(all.len())];
        let distance = |&(candidate, _): &(f64, u16)| (candidate - value).abs();
        let best = candidates.iter().map(distance).fold(f64::INFINITY, f64::min);
        let ties: Vec<u16> = candidates.iter().filter(|c| distance(c) == best).map(|c| c.1).collect();
        *ties.iter().find(|bits| ties.len() == 1 || *bits & 1 == 0).expect("one of two neighbours is even")
    }

    fn table<E: Stored + Into<f64>>(bits_of: impl Fn(u16) -> E) -> Vec<(f64, u16)> {
        let mut all: Vec<(f64, u16)> =
            (0..0x7F80_u16).map(|bits| (bits_of(bits).into(), bits)).filter(|(value, _)| value.is_finite()).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    fn check<E: Stored + Into<f64>>(bits_of: impl Fn(u16) -> E, to_bits: impl Fn(E) -> u16) {
        let all = table(bits_of);
        for pair in all.windows(2) {
            let (low, high) = (pair[0].0, pair[1].0);
            let middle = low + (high - low) / 2.0;
            let nudge = f64::from_bits(middle.to_bits() + 1);
            let under = f64::from_bits(middle.to_bits() - 1);
            for value in [low, middle, nudge, under, low + (high - low) / 3.0] {
                let expected = nearest_even(value, &all);
                assert_eq!(to_bits(value.stored_as::<E>()), expected, "{value:e}");
                assert_eq!(to_bits((-value).stored_as::<E>()), expected | 0x8000, "-{value:e}");
            }
        }
    }

    #[test]
    fn f64_rounds_to_bf16_once() {
        check(bf16::from_bits, bf16::to_bits);
        // Through f32 the tie would be made first and then go to even.
        assert_eq!((1.0 + 2f64.powi(-8) + 2f64.powi(-40)).stored_as::<bf16>().to_bits(), 0x3F81);
    }

    #[test]
    fn f64_rounds_to_f16_once() {
        check(f16::from_bits, f16::to_bits);
        assert_eq!((1.0 + 2f64.powi(-11) + 2f64.powi(-40)).stored_as::<f16>().to_bits(), 0x3C01);
    }

    #[test]
    fn overflow_goes_to_infinity_at_half_a_step_beyond_the_largest() {
        assert_eq!(65519.999_f64.stored_as::<f16>().to_bits(), 0x7BFF);
        assert_eq!(65520_f64.stored_as::<f16>().to_bits(), 0x7C00);
        assert_eq!(f64::MAX.stored_as::<bf16>().to_bits(), 0x7F80);
        assert_eq!((-f64::MAX).stored_as::<f32>().to_bits(), 0xFF80_0000);
        assert_eq!(1e-300_f64.stored_as::<bf16>().to_bits(), 0);
        assert_eq!((-1e-300_f64).stored_as::<bf16>().to_bits(), 0x8000);
    }

    #[test]
    fn a_nan_is_stored_as_the_canonical_one() {
        let nan = f32::from_bits(0xFFC1_2345);
        assert_eq!(<bf16 as Stored>::round(nan).to_bits(), 0x7FC0);
        assert_eq!(<f16 as Stored>::round(nan).to_bits(), 0x7E00);
        assert_eq!(<f32 as Stored>::round(nan).to_bits(), 0x7FC0_0000);
        assert_eq!(f64::from(nan).stored_as::<bf16>().to_bits(), 0x7FC0);
        assert_eq!(f64::from(nan).stored_as::<f16>().to_bits(), 0x7E00);
        assert_eq!(f64::from(nan).stored_as::<f32>().to_bits(), 0x7FC0_0000);
    }

    #[test]
    fn truncation_is_not_rounding() {
        assert_eq!(<bf16 as Stored>::round(f32::from_bits(0x3E89_CCD5)).to_bits(), 0x3E8A);
    }
}
