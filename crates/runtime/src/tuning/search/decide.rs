//! What times decide.

/// How a candidate stands beside the default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Faster beyond the noise: the median of the ratios of its times to the default's.
    Faster { ratio: f64 },
    /// Not shown to be faster.
    Tie,
}

/// Least gain that counts.
const LEAST: f64 = 0.005;

/// Chance at which equals may look so different in the signs of their differences.
const CHANCE: f64 = 0.005;

/// Compares times of the same rounds. A drift of the machine is in both times of a pair, and a
/// noisy moment is one pair of many.
pub(super) fn compare(default: &[(usize, f64)], candidate: &[(usize, f64)]) -> Verdict {
    let of_round = |round: usize| default.iter().find(|(other, _)| *other == round).map(|&(_, us)| us);
    let ratios: Vec<f64> = candidate
        .iter()
        .filter_map(|&(round, us)| Some(us / of_round(round)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let ratio = median(ratios.iter().copied());
    let wins = ratios.iter().filter(|&&ratio| ratio < 1.0).count();
    if ratio <= 1.0 - LEAST && chance(ratios.len(), wins) <= CHANCE { Verdict::Faster { ratio } } else { Verdict::Tie }
}

/// Chance of at least so many wins in so many even games.
fn chance(games: usize, wins: usize) -> f64 {
    let mut ways = 1.0;
    let mut at_least = 0.0;
    for k in 0..=games {
        if k > 0 {
            ways *= (games - k + 1) as f64 / k as f64;
        }
        if k >= wins {
            at_least += ways;
        }
    }
    at_least / 2f64.powi(games as i32)
}

/// The middle one, or between the two in the middle; infinite where there is none.
pub(super) fn median(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match (times.get(middle), times.len().is_multiple_of(2)) {
        (None, _) => f64::INFINITY,
        (Some(upper), true) => (times[middle - 1] + upper) / 2.0,
        (Some(&only), false) => only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_coins() {
        assert_eq!(chance(3, 0), 1.0);
        assert_eq!(chance(3, 3), 0.125);
        assert_eq!(chance(4, 3), 5.0 / 16.0);
        assert!((chance(25, 20) - 0.002_038).abs() < 1e-5, "{}", chance(25, 20));
    }

    #[test]
    fn only_what_is_faster_in_most_pairs_is_faster() {
        let default: Vec<(usize, f64)> = (0..25).map(|round| (round, 100.0 + round as f64)).collect();
        let scaled = |factor: &dyn Fn(usize) -> f64| -> Vec<(usize, f64)> {
            default.iter().map(|&(round, us)| (round, us * factor(round))).collect()
        };
        assert_eq!(compare(&default, &scaled(&|_| 0.9)), Verdict::Faster { ratio: 0.9 });
        assert_eq!(compare(&default, &default), Verdict::Tie);
        // Half of the pairs say so.
        assert_eq!(compare(&default, &scaled(&|round| if round % 2 == 0 { 0.5 } else { 1.01 })), Verdict::Tie);
        // All say so, of nothing.
        assert_eq!(compare(&default, &scaled(&|_| 0.999)), Verdict::Tie);
        // Few pairs say nothing.
        assert_eq!(compare(&default[..5], &scaled(&|_| 0.5)[..5]), Verdict::Tie);
        assert_eq!(compare(&[], &[]), Verdict::Tie);
    }
}
