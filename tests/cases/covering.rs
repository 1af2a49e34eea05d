//! Few combinations of many factors, in which every two levels meet that can.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Rows of levels: of `levels[f]` levels of factor f one each, so that any two levels of two
/// factors stand together in some row, unless no allowed row has both. Seeded; the same list
/// for the same arguments.
pub fn pairwise(levels: &[usize], allowed: impl Fn(&[usize]) -> bool, seed: u64) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut missing: Vec<[(usize, usize); 2]> = Vec::new();
    for (left, &left_levels) in levels.iter().enumerate() {
        for (right, &right_levels) in levels.iter().enumerate().skip(left + 1) {
            let pairs = (0..left_levels).flat_map(|a| (0..right_levels).map(move |b| [(left, a), (right, b)]));
            missing.extend(pairs);
        }
    }
    let covers = |row: &[usize], pair: &[(usize, usize); 2]| pair.iter().all(|&(factor, level)| row[factor] == level);
    let mut rows: Vec<Vec<usize>> = Vec::new();
    while let Some(&pair) = missing.first() {
        // The best of some random rows with the first missing pair in it; where rows are often
        // refused, more are drawn.
        let mut best: Option<(usize, Vec<usize>)> = None;
        for draw in 0..2000 {
            if draw >= 40 && best.is_some() {
                break;
            }
            let mut row: Vec<usize> = levels.iter().map(|&levels| random.random_range(0..levels)).collect();
            for (factor, level) in pair {
                row[factor] = level;
            }
            if allowed(&row) {
                let gain = missing.iter().filter(|pair| covers(&row, pair)).count();
                if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                    best = Some((gain, row));
                }
            }
        }
        match best {
            Some((_, row)) => {
                missing.retain(|pair| !covers(&row, pair));
                rows.push(row);
            }
            None => missing.retain(|other| *other != pair),
        }
    }
    rows
}

/// Every pair is there, in far fewer rows than there are combinations; a rule is kept.
pub fn check() {
    let levels = [3, 4, 5, 2, 6];
    let rows = pairwise(&levels, |row| row[0] != 2 || row[1] != 3, 1);
    assert!(rows.len() < 45, "{} rows for 720 combinations", rows.len());
    for (left, &left_levels) in levels.iter().enumerate() {
        for (right, &right_levels) in levels.iter().enumerate().skip(left + 1) {
            for (a, b) in (0..left_levels).flat_map(|a| (0..right_levels).map(move |b| (a, b))) {
                let together = rows.iter().any(|row| row[left] == a && row[right] == b);
                let refused = (left, a, right, b) == (0, 2, 1, 3);
                assert!(together != refused, "factor {left} = {a}, factor {right} = {b}");
            }
        }
    }
}
