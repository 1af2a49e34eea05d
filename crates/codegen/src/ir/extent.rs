//! Sizes in row counts and literals: `R`, `9`, `R / 3`, `R * 2`, `R * 2 / 3`.

use super::CountId;

/// `count * numerator / denominator`, or the literal `numerator` (denominator 1).
///
/// A row count for which the division leaves a rest is refused at the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The row count it scales; `None` for a literal.
    pub count: Option<CountId>,
    /// At least 1, coprime to the denominator.
    pub numerator: u64,
    /// At least 1; 1 for a literal.
    pub denominator: u64,
}

impl Extent {
    /// A fixed number of rows.
    pub fn literal(rows: u64) -> Extent {
        Extent { count: None, numerator: rows, denominator: 1 }
    }

    /// A row count itself.
    pub fn count(count: CountId) -> Extent {
        Extent { count: Some(count), numerator: 1, denominator: 1 }
    }

    /// Its value for these row counts; `None` when the division leaves a rest or overflows.
    pub fn value(&self, counts: &[u64]) -> Option<u64> {
        let base = self.count.map_or(1, |count| counts[count.index()]);
        let scaled = base.checked_mul(self.numerator)?;
        scaled.is_multiple_of(self.denominator).then(|| scaled / self.denominator)
    }

    /// The row count for which its value is `rows`; `None` for a literal, or when there is none.
    pub fn solve(&self, rows: u64) -> Option<u64> {
        self.count?;
        let scaled = rows.checked_mul(self.denominator)?;
        scaled.is_multiple_of(self.numerator).then(|| scaled / self.numerator)
    }

    /// As it reads in the language, with the row counts' names.
    pub fn text(&self, counts: &[String]) -> String {
        let Some(count) = self.count else { return self.numerator.to_string() };
        let mut text = counts[count.index()].clone();
        if self.numerator != 1 {
            text += &format!(" * {}", self.numerator);
        }
        if self.denominator != 1 {
            text += &format!(" / {}", self.denominator);
        }
        text
    }
}
