//! The proof that a row expression stays below its row count.
//!
//! The largest value of `offset + Σ factor · index` is `k + Σ p·N`, with one
//! rational `p` per row count `N`. It must be below `q·R` (or a literal) for
//! every `R` that all bounds of the kernel divide; the smallest such `R` is the
//! least common multiple of their denominators.

use super::{Faults, Place, gcd};
use crate::ir::{CountId, Extent, InputKind, Kernel, RowExpr, RowId};

pub(super) fn rows(kernel: &Kernel, faults: &mut Faults) {
    for (at, row) in kernel.rows.iter().enumerate() {
        let place = Place::Row(RowId(at as u32));
        if let Err(message) = well_formed(kernel, row).and_then(|()| below(kernel, row)) {
            faults.add(place, message);
        } else if kernel.rows[..at].contains(row) {
            faults.add(place, "the same row expression stands twice");
        }
    }
}

fn well_formed(kernel: &Kernel, row: &RowExpr) -> Result<(), String> {
    if row.terms.is_empty() {
        return Err("a row is named by at least one index".to_owned());
    }
    let mut last = None;
    for &(index, factor) in &row.terms {
        let is_index = kernel.inputs.get(index.index()).is_some_and(|input| input.is_index());
        if !is_index {
            return Err("only an index names a row".to_owned());
        }
        if factor == 0 {
            return Err("a factor of 0 makes an index meaningless; remove it".to_owned());
        }
        if last >= Some(index) {
            return Err("indices of a row expression stand once each, in declaration order".to_owned());
        }
        last = Some(index);
    }
    Ok(())
}

/// numerator / denominator, denominator positive.
#[derive(Clone, Copy)]
struct Ratio(i128, i128);

impl Ratio {
    fn plus(self, other: Ratio) -> Option<Ratio> {
        let top = self.0.checked_mul(other.1)?.checked_add(other.0.checked_mul(self.1)?)?;
        Some(Ratio::reduced(top, self.1.checked_mul(other.1)?))
    }

    fn reduced(top: i128, bottom: i128) -> Ratio {
        let shared = shared(top.unsigned_abs(), bottom.unsigned_abs()) as i128;
        Ratio(top / shared, bottom / shared)
    }
}

fn shared(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { shared(b, a % b) }
}

/// The largest value, as `k + Σ p·N`.
struct Largest {
    scaled: Vec<(CountId, Ratio)>,
    constant: i128,
}

fn largest(kernel: &Kernel, row: &RowExpr) -> Option<Largest> {
    let mut largest = Largest { scaled: vec![], constant: i128::from(row.offset) };
    for &(index, factor) in &row.terms {
        let InputKind::Index { bound, .. } = kernel.inputs[index.index()].kind else { continue };
        let factor = i128::from(factor);
        largest.constant = largest.constant.checked_sub(factor)?;
        let top = factor.checked_mul(i128::from(bound.numerator))?;
        let Some(count) = bound.count else {
            largest.constant = largest.constant.checked_add(top)?;
            continue;
        };
        let ratio = Ratio::reduced(top, i128::from(bound.denominator));
        match largest.scaled.iter_mut().find(|(other, _)| *other == count) {
            Some((_, sum)) => *sum = sum.plus(ratio)?,
            None => largest.scaled.push((count, Ratio(0, 1).plus(ratio)?)),
        }
    }
    Some(largest)
}

fn below(kernel: &Kernel, row: &RowExpr) -> Result<(), String> {
    let text = kernel.row_text(row);
    let rows = row.rows.text(&kernel.counts);
    let Some(largest) = largest(kernel, row) else {
        return Err(format!("`{text}` can be larger than any table; use smaller factors"));
    };
    let stays = match row.rows.count {
        None => largest.scaled.is_empty() && largest.constant < i128::from(row.rows.numerator),
        Some(count) => below_count(kernel, &largest, count, row.rows),
    };
    if stays {
        return Ok(());
    }
    let value = largest.text(kernel);
    Err(format!(
        "`{text}` can be as large as {value}, and rows are in 0..{rows}; change a factor, a bound or the row count"
    ))
}

fn below_count(kernel: &Kernel, largest: &Largest, count: CountId, rows: Extent) -> bool {
    if largest.scaled.iter().any(|(other, _)| *other != count) {
        return false;
    }
    let limit = Ratio(i128::from(rows.numerator), i128::from(rows.denominator));
    let scaled = largest.scaled.first().map_or(Ratio(0, 1), |(_, ratio)| *ratio);
    let Some(Ratio(room, unit)) = limit.plus(Ratio(-scaled.0, scaled.1)) else { return false };
    if room < 0 {
        return false;
    }
    // constant < room / unit · R, and the right side grows with R: the smallest R decides.
    let Some(room) = smallest(kernel, count).and_then(|smallest| room.checked_mul(smallest)) else { return false };
    largest.constant.checked_mul(unit).is_some_and(|constant| constant < room)
}

/// The smallest row count that every extent over it divides.
fn smallest(kernel: &Kernel, count: CountId) -> Option<i128> {
    let extents = kernel.inputs.iter().filter_map(|input| match input.kind {
        InputKind::Rows(_) => None,
        InputKind::Table { rows: extent, .. } | InputKind::Index { bound: extent, .. } => Some(extent),
    });
    let over = extents.filter(|extent| extent.count == Some(count));
    let smallest = over.map(|extent| extent.denominator).try_fold(1u64, |a, b| (a / gcd(a, b)).checked_mul(b));
    smallest.map(i128::from)
}

impl Largest {
    fn text(&self, kernel: &Kernel) -> String {
        let mut text = String::new();
        for (count, Ratio(top, bottom)) in &self.scaled {
            let name = &kernel.counts[count.index()];
            let join = if text.is_empty() { "" } else { " + " };
            let scale = if *top == 1 { String::new() } else { format!(" * {top}") };
            let part = if *bottom == 1 { String::new() } else { format!(" / {bottom}") };
            text += &format!("{join}{name}{scale}{part}");
        }
        match (text.is_empty(), self.constant) {
            (true, constant) => constant.to_string(),
            (false, 0) => text,
            (false, constant) if constant < 0 => format!("{text} - {}", -constant),
            (false, constant) => format!("{text} + {constant}"),
        }
    }
}
