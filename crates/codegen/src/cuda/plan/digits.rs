//! How the rows of a plan are cut into digits.

use super::PlanShape;

/// Shared memory for a tile's places. Every architecture gives 48 KiB without asking; the rest is
/// for sums over threads.
const PLACES_BYTES: u64 = 36 * 1024;

/// Bytes of one place: a tile has fewer than 2^16 positions.
const PLACE_BYTES: u64 = 2;

/// How keys are cut into digits. Keys are rows, and one more for positions without a row,
/// which sort behind all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    /// Values of a digit, no more than threads.
    pub values: u64,
    /// Digits of a key. One digit has all values of a key, and no more.
    pub passes: u32,
    /// Bits of a digit where there are several.
    bits: u32,
    rows: u64,
    /// Whether some keys are behind all rows.
    pub padded: bool,
}

impl Digits {
    /// As few digits as shared memory of a block allows, of as few values as so many need.
    pub fn of(shape: &PlanShape, threads: u32) -> Digits {
        let (rows, padded) = (shape.rows, shape.terms.iter().any(|term| term.pad.is_some()));
        let keys = rows + u64::from(padded);
        let threads = u64::from(threads);
        let most = (PLACES_BYTES / PLACE_BYTES / threads).min(threads);
        if keys <= most {
            return Digits { values: keys, passes: 1, bits: 0, rows, padded };
        }
        let key_bits = u64::BITS - (keys - 1).leading_zeros();
        let passes = key_bits.div_ceil(most.ilog2());
        let bits = key_bits.div_ceil(passes);
        Digits { values: 1 << bits, passes, bits, rows, padded }
    }

    /// The digit of a row, or of [`super::PlanArray::NO_ROW`], as an expression.
    pub fn digit(&self, row: &str, pass: u32) -> String {
        let rows = self.rows;
        let key = if self.padded { format!("({row} < {rows} ? {row} : {rows})") } else { row.to_owned() };
        match self.passes {
            1 => key,
            _ if pass == 0 => format!("{key} % {}", self.values),
            _ => format!("({key} >> {}) % {}", pass * self.bits, self.values),
        }
    }
}
