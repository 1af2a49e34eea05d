//! Running a [`Source`] on an accelerator.
#![expect(unsafe_code, reason = "addresses and functions are plain numbers at the accelerator's interface")]

use std::sync::Arc;

use rowloom_codegen::Source;
use rowloom_codegen::cuda::{Count, Param, PlanArray, Step};

use crate::engine::{DeviceMemory, Queue};
use crate::error::Error;
use crate::plan::RowPlan;
use crate::tensor::AnyView;

/// A source and its functions, one per entry in the order of its launches.
pub(crate) struct Ready {
    pub(crate) source: Source,
    pub(crate) functions: Vec<u64>,
}

/// Where the tensors of a call lie. Whoever makes it has checked them against
/// the kernel, and joined their memory to the stream.
pub(crate) struct Places {
    pub(crate) positions: u64,
    pub(crate) inputs: Vec<Vec<Place>>,
    pub(crate) outputs: Vec<Vec<Place>>,
    pub(crate) plans: Vec<PlanPlace>,
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
    pub(crate) blocks: u64,
    pub(crate) partials: u64,
}

/// Grid size that every GPU takes.
const MAX_GRID: u64 = (1 << 31) - 1;

/// Alignment of scratch parts: that of an allocation.
const PART: u64 = 256;

impl Place {
    /// Of a tensor on the queue's device; later work of the queue may use it.
    pub(crate) fn of(queue: &Arc<Queue>, view: &AnyView<'_>) -> Result<Place, Error> {
        view.join(queue)?;
        Ok(Place { address: view.address(), row_stride: view.row_stride() })
    }
}

impl PlanPlace {
    /// Of a complete plan on the queue's device.
    pub(crate) fn of(queue: &Arc<Queue>, plan: &RowPlan) -> PlanPlace {
        let arrays = PlanArray::ALL.map(|array| {
            let view = plan.array(array).view();
            view.share(queue);
            view.address()
        });
        PlanPlace { arrays, blocks: plan.blocks(), partials: plan.partials() }
    }
}

impl Places {
    fn count(&self, count: Count) -> u64 {
        match count {
            Count::Fixed(number) => number,
            Count::Positions { per, each } => self.positions.div_ceil(per) * each,
            Count::Blocks { row, each } => self.plans[row.index()].blocks * each,
            Count::Partials { row, each } => self.plans[row.index()].partials * each,
        }
    }

    fn argument(&self, param: Param, scratch: &[u64]) -> u64 {
        let input = |input: rowloom_codegen::ir::InputId, element: u32| self.inputs[input.index()][element as usize];
        let output = |output: u32, tensor: u32| self.outputs[output as usize][tensor as usize];
        match param {
            Param::Input { input: id, element } => input(id, element).address,
            Param::InputStride { input: id, element } => input(id, element).row_stride,
            Param::Output { output: at, tensor } => output(at, tensor).address,
            Param::OutputStride { output: at, tensor } => output(at, tensor).row_stride,
            Param::Positions => self.positions,
            Param::Plan { row, array } => self.plans[row.index()].arrays[crate::plan::place(array)],
            Param::Blocks(row) => self.plans[row.index()].blocks,
            Param::Scratch(part) => scratch[part],
        }
    }

    /// Where each scratch part of a source begins, and the bytes of all together.
    fn scratch(&self, source: &Source) -> (Vec<u64>, u64) {
        let mut bytes = 0;
        let starts = source.scratch.iter().map(|part| {
            let start = bytes;
            bytes += (self.count(part.elements) * part.element_bytes).next_multiple_of(PART);
            start
        });
        (starts.collect(), bytes)
    }

    /// Bytes of scratch memory that a run of the source needs.
    pub(crate) fn scratch_bytes(&self, source: &Source) -> u64 {
        self.scratch(source).1
    }
}

/// Queues the steps of a source. Gives its error word, for which it waits, if it
/// has one: `None` when every index was in bounds.
pub(crate) fn execute(
    queue: &Arc<Queue>,
    ready: &Ready,
    places: &Places,
    memory: &mut DeviceMemory,
) -> Result<Option<IndexFault>, Error> {
    let source = &ready.source;
    let (starts, bytes) = places.scratch(source);
    assert!(bytes <= memory.bytes(), "{bytes} bytes of scratch in {}", memory.bytes());
    let scratch: Vec<u64> = starts.iter().map(|start| memory.address() + start).collect();
    let mut functions = ready.functions.iter();
    for step in &source.steps {
        match step {
            Step::Fill { scratch: part, byte } => {
                let bytes = places.count(source.scratch[*part].elements) * source.scratch[*part].element_bytes;
                memory.fill(queue, starts[*part], *byte, bytes)?;
            }
            Step::Launch(entry) => {
                let Some(&function) = functions.next() else { unreachable!("a source is loaded entry by entry") };
                let grid = places.count(entry.grid).min(MAX_GRID);
                if grid == 0 {
                    continue;
                }
                let args: Vec<u64> = entry.params.iter().map(|&param| places.argument(param, &scratch)).collect();
                // SAFETY: the arguments are what the entry's parameters name: tensors that were
                // checked against the kernel and joined to this queue, and scratch of the size
                // that the source states; the function is of this source on this device.
                unsafe {
                    queue.engine.accelerator.launch(queue.raw, function, grid as u32, entry.threads, &args)?;
                }
            }
        }
    }
    let Some(part) = source.error else { return Ok(None) };
    let mut word = [0; 8];
    memory.download(queue, starts[part], &mut word)?;
    let word = u64::from_ne_bytes(word);
    Ok((word != u64::MAX).then_some(IndexFault { position: word / 256, term: (word % 256) as usize }))
}

/// What an error word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexFault {
    /// The smallest bad position.
    pub(crate) position: u64,
    /// Of a kernel the number of the index among its inputs; of a plan its term.
    pub(crate) term: usize,
}
