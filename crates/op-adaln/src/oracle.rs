//! `adaln_row_gather` and its gradient by hand: plain loops, nothing of rowloom.
//!
//! These check the oracle that rowloom derives for every kernel, so they share
//! neither code nor order of summation with it.

use crate::layout::{Indices, MODALITIES};

/// Chunks of a table row: shift, scale and gate of attention and of the MLP.
pub const CHUNKS: usize = 6;

/// Table row of each position.
pub fn rows(indices: &Indices) -> Vec<usize> {
    let pairs = indices.timestep.iter().zip(&indices.modality);
    pairs.map(|(&timestep, &modality)| timestep as usize * MODALITIES as usize + modality as usize).collect()
}

/// `out[c][s, h] = table[row[s], c·H + h]`: six (S, H) from an (R, 6·H) table, bits untouched.
///
/// # Panics
///
/// If an index leaves the table.
pub fn forward<T: Copy>(table: &[T], hidden: usize, indices: &Indices) -> [Vec<T>; CHUNKS] {
    let rows = rows(indices);
    std::array::from_fn(|chunk| {
        let mut out = Vec::with_capacity(rows.len() * hidden);
        for row in &rows {
            for column in 0..hidden {
                out.push(table[(row * CHUNKS + chunk) * hidden + column]);
            }
        }
        out
    })
}

/// `d_table[r, c·H + h]` = the sum of `d_out[c][s, h]` over the positions s of row r,
/// as `(high, low)`: the nearest f64 and what it misses.
///
/// # Panics
///
/// If an index leaves the table, or a cotangent is not (S, H).
pub fn table_gradient(
    d_out: &[Vec<f64>; CHUNKS],
    table_rows: usize,
    hidden: usize,
    indices: &Indices,
) -> Vec<(f64, f64)> {
    let rows = rows(indices);
    let width = CHUNKS * hidden;
    let mut sums = vec![Neumaier::default(); table_rows * width];
    for (chunk, d_out) in d_out.iter().enumerate() {
        assert_eq!(d_out.len(), rows.len() * hidden, "a cotangent is (S, H)");
        for (position, row) in rows.iter().enumerate() {
            for column in 0..hidden {
                sums[row * width + chunk * hidden + column].add(d_out[position * hidden + column]);
            }
        }
    }
    sums.into_iter().map(Neumaier::value).collect()
}

/// Neumaier's compensated sum.
#[derive(Clone, Copy, Default)]
struct Neumaier {
    sum: f64,
    lost: f64,
}

impl Neumaier {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    fn value(self) -> (f64, f64) {
        let high = self.sum + self.lost;
        (high, (self.sum - high) + self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_picks_the_row_of_the_pair() {
        // R = 6, H = 2: the element of row r, chunk c, column h is 100r + 10c + h.
        let table: Vec<u16> =
            (0..6).flat_map(|r| (0..6).flat_map(move |c| [100 * r + 10 * c, 100 * r + 10 * c + 1])).collect();
        let indices = Indices { timestep: vec![1, 0, 1], modality: vec![2, 1, 0] };
        let out = forward(&table, 2, &indices);
        assert_eq!(out[0], [500, 501, 100, 101, 300, 301]);
        assert_eq!(out[5], [550, 551, 150, 151, 350, 351]);
    }

    #[test]
    fn gradient_sums_the_positions_of_a_row_and_leaves_others_zero() {
        let d_out = std::array::from_fn(|chunk| (1..=3).map(|s| f64::from(s) + 10.0 * chunk as f64).collect());
        let indices = Indices { timestep: vec![0, 0, 0], modality: vec![1, 2, 1] };
        let gradient = table_gradient(&d_out, 3, 1, &indices);
        let row = |r: usize| gradient[r * 6..r * 6 + 6].iter().map(|sum| sum.0).collect::<Vec<_>>();
        assert_eq!(row(0), [0.0; 6]);
        assert_eq!(row(1), [4.0, 24.0, 44.0, 64.0, 84.0, 104.0]);
        assert_eq!(row(2), [2.0, 12.0, 22.0, 32.0, 42.0, 52.0]);
    }

    #[test]
    fn what_one_f64_would_lose_is_kept() {
        let values = [2f64.powi(60), 1.0, 2f64.powi(-30), -(2f64.powi(60))];
        let mut sum = Neumaier::default();
        values.into_iter().for_each(|value| sum.add(value));
        assert_eq!(sum.value(), (1.0 + 2f64.powi(-30), 0.0));
        let mut sum = Neumaier::default();
        [1.0, 2f64.powi(-60)].into_iter().for_each(|value| sum.add(value));
        assert_eq!(sum.value(), (1.0, 2f64.powi(-60)));
    }
}
