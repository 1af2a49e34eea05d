//! A subject with data on a device: what compares and times its candidates.

use std::collections::HashMap;
use std::sync::Arc;

use rowloom_codegen::{Choice, SClass, Subject};

use super::compile::{Generate, generated};
use super::data::{self, Indices, Sizes};
use super::problem::{Outputs, Poison, Problem, Which, Words};
use crate::baseline::{Baseline, Counting, elapsed_us, median};
use crate::device::Device;
use crate::element::ElementType;
use crate::error::Error;
use crate::modules::Ready;
use crate::stream::{Lane, Stream};
use crate::tensor::AnyTensor;

/// S at which the default is compared with the CPU executor.
const SMALL: [u64; 3] = [1, 257, 832];

/// What outputs and workspace hold before a candidate runs, and before the default does: what
/// neither writes differs. In floats no number. In integers nothing that means something: all ones
/// would be the word of no error, and no row.
const POISON: Poison = Poison { floats: 0xFF, words: 0xA5 };
const OTHER_POISON: Poison = Poison { floats: 0x5A, words: 0x5A };

/// Data of which so much is touched in a call passes through the cache by itself.
const CACHES: u64 = 2;

/// Launches of a packing that are timed together where a call touches little; of one that touches
/// [`MUCH`] bytes one is enough.
const REPEATS: u64 = 3;
const MUCH: u64 = 1 << 30;

/// Microseconds that the host has to queue one launch ahead.
const QUEUEING_US: u64 = 25;

/// Bytes that are left free beside what was counted: code, workspaces, the driver.
const SPARE: u64 = 256 << 20;

/// A subject with data on a device.
pub struct Testbed {
    stream: Stream,
    baseline: Baseline,
    subject: Subject,
    generate: Generate,
    problem: Problem,
    small: Vec<Small>,
    /// What the default writes, and what a candidate does.
    outputs: [Outputs; 2],
    rows: Counting,
    flush: Option<Flush>,
    loaded: HashMap<Choice, Arc<Ready>>,
}

/// A small S, with what the CPU executor writes in each packing.
struct Small {
    problem: Problem,
    outputs: Outputs,
    references: Vec<(Outputs, Words)>,
    /// The error word where indices are bad, of what checks them.
    bad: Option<u64>,
}

/// Memory that fills the cache when it is read.
struct Flush {
    memory: AnyTensor,
    sink: AnyTensor,
}

impl Testbed {
    /// Makes the data of a subject at `positions` positions, in so many packings whose indices
    /// `indices` gives.
    ///
    /// # Errors
    /// [`Error::NoSchedules`] on the CPU; [`Error::Captured`] on a stream that is captured, before
    /// it is touched; [`Error::TooLargeToTune`]; what the device reports.
    pub fn new(
        stream: &Stream,
        subject: &Subject,
        positions: u64,
        packings: usize,
        indices: &Indices<'_>,
        generate: Generate,
    ) -> Result<Testbed, Error> {
        let Lane::Accelerator(queue) = &stream.0 else { return Err(Error::NoSchedules) };
        queue.refuse_capture("tuning")?;
        let accelerator = &queue.engine.accelerator;
        let sizes = Sizes::of(subject, positions);
        let cache = accelerator.cache_bytes() * CACHES;
        let small = SMALL.into_iter().filter(|&small| small < positions && same_text(subject, small));
        let small: Vec<u64> = small.collect();
        // And one of bad indices.
        let packed = packings as u64 + 1;
        let small_bytes =
            small.iter().map(|&small| Sizes::of(subject, small).needed(small, packed) * packed).sum::<u64>();
        let needed = sizes.needed(positions, packed) + small_bytes + cache + SPARE;
        if let Some(free) = accelerator.free_bytes(queue.raw)?
            && needed > free
        {
            return Err(Error::TooLargeToTune { device: accelerator.name(), needed, free });
        }

        let problem = Problem::new(stream, subject, positions, packings, indices)?;
        let outputs = [problem.outputs()?, problem.outputs()?];
        let small = small.into_iter().map(|positions| Small::new(stream, subject, positions, packings, indices));
        let small: Vec<Small> = small.collect::<Result<_, Error>>()?;
        let longest = small.iter().map(|small| small.problem.sizes.longest()).chain([sizes.longest()]).max();
        // Rows and positions are 32 bits.
        let longest = longest.and_then(|rows| u32::try_from(rows).ok()).unwrap_or(u32::MAX);
        let flush = match cache {
            0 => None,
            cache if sizes.touched(positions) >= cache => None,
            cache => Some(Flush::new(stream, cache)?),
        };
        Ok(Testbed {
            stream: stream.clone(),
            baseline: Baseline::new(stream),
            subject: subject.clone(),
            generate,
            problem,
            small,
            outputs,
            rows: Counting::new(stream, longest)?,
            flush,
            loaded: HashMap::new(),
        })
    }

    /// Compares the default's bytes with the CPU executor's, at small S: where they differ first.
    ///
    /// # Errors
    /// What the device reports.
    pub fn check_default(&mut self, default: &Choice) -> Result<Option<String>, Error> {
        let ready = self.load(default)?;
        self.check_small(&ready, "the CPU executor's")
    }

    /// Compares a candidate's bytes with the default's, at this S and at small ones, on the device:
    /// where they differ first.
    ///
    /// # Errors
    /// What the device reports.
    pub fn check(&mut self, default: &Choice, candidate: &Choice) -> Result<Option<String>, Error> {
        let (default, candidate) = (self.load(default)?, self.load(candidate)?);
        if let Some(found) = self.check_small(&candidate, "the default's")? {
            return Ok(Some(found));
        }
        let Testbed { baseline, problem, outputs: [theirs, ours], rows, .. } = self;
        for packing in 0..problem.packings() {
            let which = Which::Good(packing);
            let their_words = ran(problem, &default, which, theirs, OTHER_POISON)?;
            let our_words = ran(problem, &candidate, which, ours, POISON)?;
            let found = problem.difference(baseline, rows, (ours, &our_words), (theirs, &their_words))?;
            if let Some(found) = found {
                return Ok(Some(place(&found, problem.positions, packing, "the default's")));
            }
        }
        if !problem.has_bad() {
            return Ok(None);
        }
        let their_words = ran(problem, &default, Which::Bad, theirs, OTHER_POISON)?;
        let our_words = ran(problem, &candidate, Which::Bad, ours, POISON)?;
        Ok(other_error(&our_words, their_words.first().copied(), problem.positions, "the default's"))
    }

    fn check_small(&mut self, ready: &Ready, whose: &str) -> Result<Option<String>, Error> {
        for Small { problem, outputs, references, bad } in &mut self.small {
            for (packing, (reference, words)) in references.iter().enumerate() {
                let our_words = ran(problem, ready, Which::Good(packing), outputs, POISON)?;
                let (ours, theirs) = ((&*outputs, &our_words), (reference, words));
                if let Some(found) = problem.difference(&self.baseline, &self.rows, ours, theirs)? {
                    return Ok(Some(place(&found, problem.positions, packing, whose)));
                }
            }
            if let Some(theirs) = *bad {
                let our_words = ran(problem, ready, Which::Bad, outputs, POISON)?;
                let found = other_error(&our_words, Some(theirs), problem.positions, whose);
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Device time of one launch in microseconds, the mean over the packings. What is queued
    /// meanwhile by others is not in it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn time(&mut self, candidate: &Choice) -> Result<f64, Error> {
        let ready = self.load(candidate)?;
        let is_gpu = self.is_gpu();
        let Testbed { stream, baseline, problem, outputs: [_, ours], flush, .. } = self;
        problem.reserve(&ready, ours)?;
        let packings = problem.packings();
        let repeats =
            if is_gpu { (MUCH / problem.sizes.touched(problem.positions).max(1)).clamp(1, REPEATS) } else { 1 };
        if is_gpu {
            stream.synchronize()?;
            let launches = (packings as u64 * repeats + 1) * (2 + ready.source.steps.len() as u64);
            baseline.delay(QUEUEING_US * launches)?;
            // The first launch behind a wait is slow, whichever it is.
            problem.launch(&ready, Which::Good(0), ours)?;
        }
        let mut marks = Vec::new();
        for packing in 0..packings {
            for _ in 0..repeats {
                if let Some(Flush { memory, sink }) = flush {
                    baseline.read(memory.view(), &mut sink.view_mut(), 4)?;
                }
                let start = stream.record()?;
                problem.launch(&ready, Which::Good(packing), ours)?;
                marks.push((start, stream.record()?));
            }
        }
        let times = elapsed_us(&marks)?;
        let of_packings = times.chunks(repeats as usize).filter_map(median);
        Ok(of_packings.sum::<f64>() / packings as f64)
    }

    fn is_gpu(&self) -> bool {
        self.stream.device().name().starts_with("cuda")
    }

    fn load(&mut self, choice: &Choice) -> Result<Arc<Ready>, Error> {
        if let Some(ready) = self.loaded.get(choice) {
            return Ok(ready.clone());
        }
        let source = generated(self.generate, &self.subject, choice)?;
        let Lane::Accelerator(queue) = &self.stream.0 else { return Err(Error::NoSchedules) };
        let ready = queue.engine.ready(source)?;
        self.loaded.insert(*choice, ready.clone());
        Ok(ready)
    }
}

/// Whether the text for a subject's class of S serves a smaller S too: that for rows of one block
/// serves no others.
fn same_text(subject: &Subject, positions: u64) -> bool {
    match subject {
        Subject::Kernel { kernel, spec } => SClass::of(positions, kernel.order.block) <= spec.s_class,
        Subject::Plan(_) => true,
    }
}

/// Runs code once over poison. What it leaves beside the outputs.
fn ran(
    problem: &mut Problem,
    ready: &Ready,
    which: Which,
    outputs: &mut Outputs,
    poison: Poison,
) -> Result<Words, Error> {
    problem.poison(ready, which, outputs, poison)?;
    problem.launch(ready, which, outputs)?;
    problem.words(ready, which, outputs)
}

/// Whether the word of a bad index is another one. Outputs mean nothing then.
fn other_error(ours: &[u64], theirs: Option<u64>, positions: u64, whose: &str) -> Option<String> {
    let ours = ours.first().copied();
    (ours != theirs).then(|| {
        format!("error word: {ours:?} in place of {theirs:?}: not {whose}, with {positions} positions and bad indices")
    })
}

fn place(found: &str, positions: u64, packing: usize, whose: &str) -> String {
    format!("{found}: not {whose} bytes, with {positions} positions in packing {}", packing + 1)
}

impl Small {
    fn new(
        stream: &Stream,
        subject: &Subject,
        positions: u64,
        packings: usize,
        indices: &Indices<'_>,
    ) -> Result<Small, Error> {
        let problem = Problem::new(stream, subject, positions, packings, indices)?;
        let cpu = Problem::new(&Device::cpu().stream()?, subject, positions, packings, indices)?;
        let reference = |packing| {
            let (outputs, words) = cpu.on_cpu(Which::Good(packing))?;
            let moved = |tensors: Vec<AnyTensor>| {
                tensors.iter().map(|tensor| data::moved(stream, tensor.view())).collect::<Result<Vec<_>, Error>>()
            };
            Ok((outputs.into_iter().map(moved).collect::<Result<_, Error>>()?, words))
        };
        let references = (0..packings).map(reference).collect::<Result<_, Error>>()?;
        let bad = cpu.has_bad().then(|| cpu.bad_on_cpu()).transpose()?;
        Ok(Small { outputs: problem.outputs()?, problem, references, bad })
    }
}

impl Flush {
    fn new(stream: &Stream, bytes: u64) -> Result<Flush, Error> {
        let columns = 4096;
        let memory = AnyTensor::zeros(stream, ElementType::U32, bytes.div_ceil(4 * columns), columns)?;
        Ok(Flush { memory, sink: AnyTensor::zeros(stream, ElementType::U32, 1, 1)? })
    }
}
