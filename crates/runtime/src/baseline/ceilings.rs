//! How fast memory is, in the same run: what times are to be judged by.
//!
//! Rounds lie between the timings of what is judged. In each, every way of
//! reading, writing or copying runs until its median is stable; the best median
//! of all rounds counts.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use rowloom_codegen::DType;
use serde::Serialize;

use super::queued::median;
use super::{Baseline, Target, UNROLLS};
use crate::element::ElementType;
use crate::error::Error;
use crate::tensor::AnyTensor;

/// Bytes that one task works on.
const PIECE: usize = 1 << 20;

/// Runs on a CPU, of which the fastest counts: others use the machine too.
const CPU_RUNS: usize = 5;

/// Most bytes of a buffer on a CPU: beyond every cache, and still small beside the rest.
const MOST_CPU_BYTES: u64 = 256 << 20;

/// Runs on a GPU of which a median is taken.
const GPU_RUNS: usize = 10;

/// Most medians that are taken until two in a row agree.
const MOST_MEDIANS: usize = 10;

/// How closely two medians agree.
const STABLE: f64 = 0.02;

/// Memory speed: the best of several plain loops and of the system's own, 10^9 bytes a second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ceiling {
    /// Reading as many bytes as the outputs hold.
    pub read_gb_s: f64,
    /// Writing them.
    pub write_gb_s: f64,
    /// Copying: bytes read plus bytes written.
    pub copy_gb_s: f64,
}

/// The memory that ceilings are measured on, and the best of each so far.
pub struct Ceilings {
    bytes: u64,
    gpu: Option<Tensors>,
    /// Seconds.
    read: f64,
    write: f64,
    copy: f64,
}

struct Tensors {
    source: AnyTensor,
    target: AnyTensor,
    sink: AnyTensor,
}

impl Ceilings {
    /// For moving `bytes` bytes, or as many as fit on a CPU. `None` in emulation, which has no speed.
    ///
    /// # Errors
    /// When the device has no memory for them.
    pub fn new(baseline: &Baseline, bytes: u64) -> Result<Option<Ceilings>, Error> {
        let stream = baseline.stream();
        let start =
            |bytes, gpu| Ceilings { bytes, gpu, read: f64::INFINITY, write: f64::INFINITY, copy: f64::INFINITY };
        match baseline.target(&[])? {
            Target::Cpu => return Ok(Some(start(bytes.clamp(8, MOST_CPU_BYTES) / 8 * 8, None))),
            Target::Emulated => return Ok(None),
            Target::Gpu => {}
        }
        let columns = 4096;
        let rows = (bytes / columns / 4).max(1);
        let tensor = || AnyTensor::zeros(stream, ElementType::Float(DType::F32), rows, columns);
        let sink = AnyTensor::zeros(stream, ElementType::U32, 1, 1)?;
        let tensors = Tensors { source: tensor()?, target: tensor()?, sink };
        Ok(Some(start(rows * columns * 4, Some(tensors))))
    }

    /// One round.
    ///
    /// # Errors
    /// What the device reports.
    pub fn round(&mut self, baseline: &Baseline) -> Result<(), Error> {
        match self.gpu.take() {
            Some(mut tensors) => {
                self.on_gpu(baseline, &mut tensors)?;
                self.gpu = Some(tensors);
            }
            None => self.on_cpu(),
        }
        Ok(())
    }

    /// What the best of all rounds means.
    pub fn ceiling(&self) -> Ceiling {
        let gb_s = |bytes: f64, seconds: f64| bytes / seconds / 1e9;
        let bytes = self.bytes as f64;
        Ceiling {
            read_gb_s: gb_s(bytes, self.read),
            write_gb_s: gb_s(bytes, self.write),
            copy_gb_s: gb_s(2.0 * bytes, self.copy),
        }
    }

    fn on_gpu(&mut self, baseline: &Baseline, tensors: &mut Tensors) -> Result<(), Error> {
        let stream = baseline.stream();
        let Tensors { source, target, sink } = tensors;
        for unroll in UNROLLS {
            let read = stable(baseline, || baseline.read(source.view(), &mut sink.view_mut(), unroll))?;
            self.read = self.read.min(read);
            let write = stable(baseline, || baseline.write(&mut target.view_mut(), unroll))?;
            self.write = self.write.min(write);
            let copy = stable(baseline, || baseline.copy(&mut target.view_mut(), source.view(), unroll))?;
            self.copy = self.copy.min(copy);
        }
        let set = stable(baseline, || target.view_mut().fill(stream, 0))?;
        self.write = self.write.min(set);
        let copy = stable(baseline, || target.view_mut().copy_from(stream, source.view()))?;
        self.copy = self.copy.min(copy);
        Ok(())
    }

    fn on_cpu(&mut self) {
        let words = (self.bytes / 8) as usize;
        let mut target = vec![0u64; words];
        let source = vec![1u64; words];
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
        self.read = self.read.min(read);
        self.write = self.write.min(write).min(write_alone);
        self.copy = self.copy.min(copy).min(copy_alone);
    }
}

/// Seconds of the median run once medians agree: what ran before has no say.
fn stable(baseline: &Baseline, mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut last = f64::INFINITY;
    for _ in 0..MOST_MEDIANS {
        let times = baseline.queue(2, GPU_RUNS, &mut work)?;
        let median = median(&times.us).unwrap_or(f64::INFINITY);
        if (median - last).abs() <= STABLE * median {
            return Ok(median.min(last) / 1e6);
        }
        last = median;
    }
    Ok(last / 1e6)
}

/// Seconds of the fastest run.
fn best(mut work: impl FnMut()) -> f64 {
    let runs = (0..CPU_RUNS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn speeds_are_positive_and_finite() {
        let baseline = Baseline::new(&Device::cpu().stream().expect("a CPU"));
        let mut ceilings = Ceilings::new(&baseline, 1 << 22).expect("memory").expect("a CPU has a speed");
        ceilings.round(&baseline).expect("measured");
        let ceiling = ceilings.ceiling();
        for speed in [ceiling.read_gb_s, ceiling.write_gb_s, ceiling.copy_gb_s] {
            assert!(speed.is_finite() && speed > 0.0, "{ceiling:?}");
        }
    }
}
