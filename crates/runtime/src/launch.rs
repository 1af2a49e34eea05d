//! Running a [`rowloom_codegen::Source`] on an accelerator.
#![expect(unsafe_code, reason = "addresses and functions are plain numbers at the accelerator's interface")]

use std::sync::Arc;

use rowloom_codegen::Source;
use rowloom_codegen::cuda::{Count, Param, PlanArray, Step};
use smallvec::SmallVec;

use crate::engine::{Queue, Region, Submission, Use, Word};
use crate::error::Error;
use crate::modules::Ready;
use crate::tensor::AnyView;

/// Where the tensors of a call lie. Whoever makes it has checked them against
/// the kernel, and joined their memory to the stream.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) positions: u64,
    pub(crate) inputs: TensorPlaces,
    pub(crate) outputs: TensorPlaces,
    pub(crate) plans: SmallVec<[PlanPlace; 2]>,
}

/// The tensors of each input or output, one after the other. On the stack for kernels
/// of a usual size, as all else that a launch puts together.
#[derive(Default)]
pub(crate) struct TensorPlaces {
    places: SmallVec<[Place; 16]>,
    /// Where the tensors of each begin.
    starts: SmallVec<[usize; 8]>,
}

/// A tensor: address of its first element, elements from row to row.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    address: u64,
    row_stride: u64,
}

/// The arrays of a plan, in the order of [`PlanArray::ALL`], and its numbers.
#[derive(Clone, Copy)]
pub(crate) struct PlanPlace {
    pub(crate) arrays: [u64; PlanArray::ALL.len()],
    pub(crate) positions: u64,
    pub(crate) blocks: u64,
    pub(crate) partials: u64,
}

/// Grid size that every GPU takes.
const MAX_GRID: u64 = (1 << 31) - 1;

/// Alignment of scratch memory and its parts, in bytes: that of an allocation.
pub(crate) const SCRATCH_ALIGN: u64 = 256;

impl TensorPlaces {
    /// Begins the next input or output.
    pub(crate) fn begin(&mut self) {
        self.starts.push(self.places.len());
    }

    /// One more of its tensors.
    pub(crate) fn push(&mut self, place: Place) {
        self.places.push(place);
    }

    fn at(&self, argument: usize, tensor: u32) -> Place {
        self.places[self.starts[argument] + tensor as usize]
    }
}

/// One tensor each.
impl FromIterator<Place> for TensorPlaces {
    fn from_iter<I: IntoIterator<Item = Place>>(places: I) -> TensorPlaces {
        let places: SmallVec<_> = places.into_iter().collect();
        TensorPlaces { starts: (0..places.len()).collect(), places }
    }
}

impl Place {
    /// Of a tensor.
    pub(crate) fn of(view: &AnyView<'_>) -> Place {
        Place { address: view.address(), row_stride: view.row_stride() }
    }

    /// Of a tensor on the queue's device that a submission uses so.
    pub(crate) fn joined(queue: &Submission<'_>, view: &AnyView<'_>, how: Use) -> Result<Place, Error> {
        view.join(queue, how)?;
        Ok(Place::of(view))
    }
}

impl Places {
    fn count(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(number) => number,
            Count::Positions { per, each } => self.positions.div_ceil(per) * each,
            Count::UpTo { per, most, each } => self.positions.div_ceil(per).min(most) * each,
            Count::Blocks { row, per, each } => self.plans[row.index()].blocks.div_ceil(per) * each,
            Count::Partials { row, each } => self.plans[row.index()].partials * each,
        }
    }

    fn argument(&self, param: Param, scratch: &[u64]) -> u64 {
        match param {
            Param::Input { input, element } => self.inputs.at(input.index(), element).address,
            Param::InputStride { input, element } => self.inputs.at(input.index(), element).row_stride,
            Param::Output { output, tensor } => self.outputs.at(output as usize, tensor).address,
            Param::OutputStride { output, tensor } => self.outputs.at(output as usize, tensor).row_stride,
            Param::Positions => self.positions,
            Param::Plan { row, array } => self.plans[row.index()].arrays[array.place()],
            Param::Blocks(row) => self.plans[row.index()].blocks,
            Param::PlanPositions(row) => self.plans[row.index()].positions,
            Param::Scratch(part) => scratch[part],
        }
    }

    /// Where each scratch part of a source begins, and the bytes of all together.
    fn scratch(&self, source: &Source) -> (SmallVec<[u64; 8]>, u64) {
        let mut bytes = 0;
        let starts = source.scratch.iter().map(|part| {
            let start = bytes;
            bytes += (self.count(part.elements) * part.element_bytes).next_multiple_of(SCRATCH_ALIGN);
            start
        });
        (starts.collect(), bytes)
    }

    /// Where the part lies that begins with the error word, and its bytes.
    pub(crate) fn error_part(&self, source: &Source) -> Option<(u64, u64)> {
        let at = source.error?;
        let part = &source.scratch[at];
        Some((self.scratch(source).0[at], self.count(part.elements) * part.element_bytes))
    }

    /// Bytes of scratch memory that a run of the source needs.
    pub(crate) fn scratch_bytes(&self, source: &Source) -> u64 {
        self.scratch(source).1
    }
}

/// Queues the steps of a source. The scratch memory has the bytes that it states and is
/// joined to the queue; without any it may be missing.
pub(crate) fn enqueue(
    queue: &Submission<'_>,
    ready: &Ready,
    places: &Places,
    memory: Option<Region<'_>>,
) -> Result<(), Error> {
    let source = &ready.source;
    let (starts, bytes) = places.scratch(source);
    let (address, held) = memory.map_or((0, 0), |memory| (memory.address(), memory.bytes()));
    assert!(bytes <= held, "{bytes} bytes of scratch in {held}");
    let scratch: SmallVec<[u64; 8]> = starts.iter().map(|start| address + start).collect();
    let mut functions = ready.functions.iter();
    for step in &source.steps {
        match step {
            Step::Fill { scratch: part, byte } => {
                let bytes = places.count(source.scratch[*part].elements) * source.scratch[*part].element_bytes;
                memory.map_or(Ok(()), |memory| memory.fill(queue, starts[*part], *byte, bytes))?;
            }
            Step::Launch(entry) => {
                let Some(&function) = functions.next() else { unreachable!("a source is loaded entry by entry") };
                let most = entry.resident.map_or(MAX_GRID, |resident| {
                    u64::from(resident) * u64::from(queue.engine.accelerator.multiprocessors())
                });
                let grid = places.count(entry.grid).min(most).min(MAX_GRID);
                if grid == 0 {
                    continue;
                }
                let args: SmallVec<[u64; 32]> =
                    entry.params.iter().map(|&param| places.argument(param, &scratch)).collect();
                // SAFETY: the arguments are what the entry's parameters name: tensors that were
                // checked against the kernel and joined to this queue, and scratch of the size
                // that the source states; the function is of this source on this device.
                unsafe {
                    let shape = (grid as u32, entry.threads);
                    queue.engine.accelerator.launch(queue.raw, function, shape, entry.early, &args)?;
                }
            }
        }
    }
    Ok(())
}

/// Waits for the error word of what was queued, if the source has one.
pub(crate) fn error_word(
    queue: &Submission<'_>,
    ready: &Ready,
    places: &Places,
    memory: Option<Region<'_>>,
) -> Result<Option<IndexFault>, Error> {
    let Some(memory) = memory.filter(|_| ready.source.error.is_some()) else { return Ok(None) };
    let [word] = error_words(queue, ready, places, &memory)?;
    Ok(IndexFault::of(word))
}

/// Waits for the first N words of the part that begins with the error word, of a source that has one.
pub(crate) fn error_words<const N: usize>(
    queue: &Arc<Queue>,
    ready: &Ready,
    places: &Places,
    memory: &Region<'_>,
) -> Result<[u64; N], Error> {
    let Some(part) = ready.source.error else { unreachable!("only checking sources are asked") };
    let mut words = [0_u64; N];
    memory.download(queue, places.scratch(&ready.source).0[part], bytemuck::cast_slice_mut(&mut words))?;
    Ok(words)
}

/// Queues a copy of the error word to the host, if the source has one.
pub(crate) fn fetch_error_word(
    queue: &Submission<'_>,
    ready: &Ready,
    places: &Places,
    memory: Option<Region<'_>>,
) -> Result<Option<Word>, Error> {
    let Some((part, memory)) = ready.source.error.zip(memory) else { return Ok(None) };
    Word::fetch(queue, &memory, places.scratch(&ready.source).0[part]).map(Some)
}

/// What an error word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexFault {
    /// The smallest bad position.
    pub(crate) position: u64,
    /// Of a kernel the number of the index among its inputs; of a plan its term.
    pub(crate) term: usize,
}

impl IndexFault {
    /// The word that says it.
    pub(crate) fn word(self) -> u64 {
        self.position * 256 + self.term as u64
    }

    /// `None` when every index was in bounds.
    pub(crate) fn of(word: u64) -> Option<IndexFault> {
        (word != u64::MAX).then_some(IndexFault { position: word / 256, term: (word % 256) as usize })
    }
}
