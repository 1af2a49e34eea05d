//! How fast memory is, in the same run: what times are to be judged by.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use rowloom_codegen::DType;
use rowloom_runtime::{AnyTensor, ElementType, Stream, baseline};

use crate::error::{Error, Result};

use super::schema::Ceiling;

/// Bytes that one task works on.
const PIECE: usize = 1 << 20;

/// Rounds, of which the best counts.
const ROUNDS: usize = 7;

/// The same on a GPU, where a round is short.
const GPU_ROUNDS: usize = 20;

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

/// The same on a GPU: plain kernels and the driver's own fill and copy.
pub fn of_gpu(stream: &Stream, bytes: u64) -> Result<Ceiling> {
    let columns = 4096;
    let rows = (bytes / columns / 4).max(1);
    let tensor = || AnyTensor::zeros(stream, ElementType::Float(DType::F32), rows, columns).map_err(Error::failed);
    let (mut target, source, mut sink) = (tensor()?, tensor()?, tensor()?);
    let moved = (rows * columns * 4) as f64;
    let (mut read, mut write, mut copy) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for unroll in baseline::UNROLLS {
        read = read.min(best_on(stream, || baseline::read(stream, source.view(), &mut sink.view_mut(), unroll))?);
        write = write.min(best_on(stream, || baseline::write(stream, &mut target.view_mut(), unroll))?);
        copy = copy.min(best_on(stream, || baseline::copy(stream, &mut target.view_mut(), source.view(), unroll))?);
    }
    write = write.min(best_on(stream, || target.view_mut().fill(stream, 0))?);
    copy = copy.min(best_on(stream, || target.view_mut().copy_from(stream, source.view()))?);
    let gb_s = |bytes: f64, us: f64| bytes / us / 1e3;
    Ok(Ceiling { read_gb_s: gb_s(moved, read), write_gb_s: gb_s(moved, write), copy_gb_s: gb_s(2.0 * moved, copy) })
}

/// Microseconds of the fastest round.
fn best_on(stream: &Stream, mut work: impl FnMut() -> std::result::Result<(), rowloom_runtime::Error>) -> Result<f64> {
    let mut rounds = || {
        work()?;
        let mut marks = Vec::new();
        for _ in 0..GPU_ROUNDS {
            let start = stream.record()?;
            work()?;
            marks.push((start, stream.record()?));
        }
        let times = marks.iter().map(|(start, end)| end.elapsed_us(start));
        times.collect::<std::result::Result<Vec<f64>, _>>()
    };
    let times = rounds().map_err(Error::failed)?;
    Ok(times.into_iter().fold(f64::INFINITY, f64::min).max(1e-3))
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
