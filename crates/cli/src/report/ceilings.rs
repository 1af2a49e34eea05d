//! How fast memory is, in the same run: what times are to be judged by.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use super::schema::Ceiling;

/// Bytes that one task works on.
const PIECE: usize = 1 << 20;

/// Rounds, of which the best counts.
const ROUNDS: usize = 7;

/// Most bytes of the buffers: beyond every cache, and still small beside the rest.
const MOST_BYTES: u64 = 512 << 20;

/// Reading, writing and copying `bytes` bytes, or as many as fit, on all cores of the CPU.
pub fn of_cpu(bytes: u64) -> Ceiling {
    let words = (bytes.clamp(8, MOST_BYTES) / 8) as usize;
    let mut target = vec![0u64; words];
    let source = vec![1u64; words];
    let moved = words as f64 * 8.0;
    let piece = PIECE / 8;
    let read = best(|| {
        let sum = source.par_chunks(piece).map(|piece| piece.iter().fold(0u64, |sum, word| sum ^ word));
        black_box(sum.reduce(|| 0, |left, right| left ^ right));
    });
    let write = best(|| {
        target.par_chunks_mut(piece).for_each(|piece| piece.fill(black_box(7)));
    });
    let write_alone = best(|| black_box(&mut target).fill(black_box(9)));
    let copy = best(|| {
        target.par_chunks_mut(piece).zip(source.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
    });
    let copy_alone = best(|| black_box(&mut target).copy_from_slice(black_box(&source)));
    black_box(&target);
    let gb_s = |bytes: f64, seconds: f64| bytes / seconds / 1e9;
    Ceiling {
        read_gb_s: gb_s(moved, read),
        write_gb_s: gb_s(moved, write.min(write_alone)),
        copy_gb_s: gb_s(2.0 * moved, copy.min(copy_alone)),
    }
}

/// Seconds of the fastest round.
fn best(mut work: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    rounds.fold(f64::INFINITY, f64::min).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_positive_and_finite() {
        let ceiling = of_cpu(1 << 22);
        for speed in [ceiling.read_gb_s, ceiling.write_gb_s, ceiling.copy_gb_s] {
            assert!(speed.is_finite() && speed > 0.0, "{ceiling:?}");
        }
    }
}
