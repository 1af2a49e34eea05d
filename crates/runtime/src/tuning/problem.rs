//! One call of a subject with its tensors, at one S and in several packings, to be run under any
//! source.

mod on_cpu;

use std::sync::Arc;

use rowloom_codegen::Subject;
use rowloom_codegen::cuda::{PLAN_TOTALS, PlanArray};

use super::data::{self, Indices, Size, Sizes};
use crate::baseline::{Baseline, Counting, Found};
use crate::call;
use crate::element::ElementType;
use crate::engine::{Queue, Submission, Use};
use crate::error::Error;
use crate::launch::{Place, Places, PlanPlace, enqueue, error_words};
use crate::modules::Ready;
use crate::plan::RowPlan;
use crate::stream::{Lane, Stream};
use crate::tensor::{AnyTensor, AnyView};
use crate::workspace::Workspace;

/// For each output its tensors. Of a plan, its arrays.
pub(super) type Outputs = Vec<Vec<AnyTensor>>;

/// What a run writes beside its outputs: the error word, and a plan's totals.
pub(super) type Words = Vec<u64>;

/// What every byte holds before a run: where floats lie, and where integers do.
#[derive(Clone, Copy)]
pub(super) struct Poison {
    pub(super) floats: u8,
    pub(super) words: u8,
}

pub(super) struct Problem {
    stream: Stream,
    subject: Subject,
    pub(super) positions: u64,
    pub(super) sizes: Sizes,
    /// Inputs but for indices, which are empty here.
    inputs: Vec<Vec<AnyTensor>>,
    packings: Vec<Packing>,
    /// One more in which indices are bad, of what checks them.
    bad: Option<Packing>,
    workspace: Workspace,
}

/// A packing by its number, or the one in which indices are bad.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Good(usize),
    Bad,
}

/// Where positions point.
struct Packing {
    indices: Vec<AnyTensor>,
    plans: Vec<RowPlan>,
}

impl Problem {
    pub(super) fn new(
        stream: &Stream,
        subject: &Subject,
        positions: u64,
        packings: usize,
        indices: &Indices<'_>,
    ) -> Result<Problem, Error> {
        let sizes = Sizes::of(subject, positions);
        let input = |(input, size): (usize, &Option<Size>)| {
            size.map_or(Ok(Vec::new()), |size| data::random(stream, input, size))
        };
        let inputs = sizes.inputs.iter().enumerate().map(input).collect::<Result<_, Error>>()?;
        let (stream, subject, workspace) = (stream.clone(), subject.clone(), Workspace::new(stream));
        let mut problem =
            Problem { stream, subject, positions, sizes, inputs, packings: Vec::new(), bad: None, workspace };
        for packing in 0..packings {
            let indices = problem.indices(packing, indices, &[])?;
            problem.packings.push(Packing { indices, plans: Vec::new() });
            problem.packings[packing].plans = problem.plans(packing)?;
        }
        let bad = data::bad(&problem.sizes.indices, positions).filter(|_| problem.checks());
        let bad = bad.map(|bad| problem.indices(0, indices, &bad)).transpose()?;
        problem.bad = bad.map(|indices| Packing { indices, plans: Vec::new() });
        Ok(problem)
    }

    fn indices(
        &self,
        packing: usize,
        indices: &Indices<'_>,
        bad: &[(u64, usize, i64)],
    ) -> Result<Vec<AnyTensor>, Error> {
        let index =
            |(number, term)| data::index(&self.stream, term, number, indices(packing, number, self.positions), bad);
        self.sizes.indices.iter().enumerate().map(index).collect()
    }

    /// Whether it looks at its indices.
    fn checks(&self) -> bool {
        match &self.subject {
            Subject::Kernel { spec, .. } => !spec.planned,
            Subject::Plan(_) => true,
        }
    }

    pub(super) fn has_bad(&self) -> bool {
        self.bad.is_some()
    }

    fn packing(&self, which: Which) -> &Packing {
        match (which, &self.bad) {
            (Which::Good(packing), _) => &self.packings[packing],
            (Which::Bad, Some(bad)) => bad,
            (Which::Bad, None) => unreachable!("it has bad indices"),
        }
    }

    pub(super) fn packings(&self) -> usize {
        self.packings.len()
    }

    /// Content unspecified.
    pub(super) fn outputs(&self) -> Result<Outputs, Error> {
        let tensor = |size: &Size| AnyTensor::uninit(&self.stream, size.ty, size.rows, size.columns);
        let tensors = |(_, size): &(String, Size)| (0..size.count).map(|_| tensor(size)).collect();
        self.sizes.outputs.iter().map(tensors).collect()
    }

    /// Its tensors, input by input.
    fn views(&self, which: Which) -> Vec<Vec<AnyView<'_>>> {
        let mut indices = self.packing(which).indices.iter();
        let mut all = Vec::new();
        for (size, tensors) in self.sizes.inputs.iter().zip(&self.inputs) {
            all.push(match size {
                Some(_) => tensors.iter().map(AnyTensor::view).collect(),
                None => indices.by_ref().take(1).map(AnyTensor::view).collect(),
            });
        }
        all
    }

    /// The plans that a call of this packing takes.
    fn plans(&self, packing: usize) -> Result<Vec<RowPlan>, Error> {
        match &self.subject {
            Subject::Kernel { kernel, spec } if spec.planned => {
                let counts: Vec<(&str, u64)> =
                    kernel.counts.iter().map(String::as_str).zip(spec.counts.iter().copied()).collect();
                call::plans(&self.stream, kernel, &self.views(Which::Good(packing)), &counts)
            }
            Subject::Kernel { .. } | Subject::Plan(_) => Ok(Vec::new()),
        }
    }

    /// Sets every byte of outputs, and of the workspace for this code.
    pub(super) fn poison(
        &mut self,
        ready: &Ready,
        which: Which,
        outputs: &mut Outputs,
        poison: Poison,
    ) -> Result<(), Error> {
        self.reserve(ready, outputs)?;
        let words = {
            let queue = self.queue()?;
            let queue = queue.submit()?;
            self.places(&queue, which, outputs)?.error_part(&ready.source)
        };
        match self.subject {
            Subject::Kernel { .. } => {
                self.workspace.fill(poison.floats)?;
                if let Some((start, bytes)) = words {
                    self.workspace.fill_part(start, bytes, poison.words)?;
                }
            }
            Subject::Plan(_) => self.workspace.fill(poison.words)?,
        }
        outputs.iter_mut().flatten().try_for_each(|tensor| {
            let byte = match tensor.element_type() {
                ElementType::Float(_) => poison.floats,
                ElementType::Int(_) | ElementType::U32 => poison.words,
            };
            tensor.view_mut().fill(&self.stream, byte)
        })
    }

    /// Makes the workspace large enough, in every packing.
    pub(super) fn reserve(&mut self, ready: &Ready, outputs: &Outputs) -> Result<(), Error> {
        let mut bytes = 0;
        {
            let queue = self.queue()?;
            let queue = queue.submit()?;
            let bad = self.bad.iter().map(|_| Which::Bad);
            for which in (0..self.packings.len()).map(Which::Good).chain(bad) {
                bytes = self.places(&queue, which, outputs)?.scratch_bytes(&ready.source).max(bytes);
            }
        }
        self.workspace.reserve(bytes)
    }

    fn queue(&self) -> Result<Arc<Queue>, Error> {
        match &self.stream.0 {
            Lane::Accelerator(queue) => Ok(queue.clone()),
            Lane::Cpu(_) => Err(Error::NoSchedules),
        }
    }

    fn places(&self, queue: &Submission<'_>, which: Which, outputs: &Outputs) -> Result<Places, Error> {
        let mut places = Places { positions: self.positions, ..Places::default() };
        for tensors in self.views(which) {
            places.inputs.begin();
            for view in tensors {
                places.inputs.push(Place::joined(queue, &view, Use::Read)?);
            }
        }
        for tensors in outputs {
            places.outputs.begin();
            for tensor in tensors {
                places.outputs.push(Place::joined(queue, &tensor.view(), Use::Write)?);
            }
        }
        match &self.subject {
            Subject::Kernel { .. } => {
                places.plans.extend(self.packing(which).plans.iter().map(|plan| plan.place(queue)));
            }
            Subject::Plan(_) => {
                let arrays = std::array::from_fn(|at| outputs[at][0].view().address());
                places.plans.push(PlanPlace { arrays, positions: self.positions, blocks: 0, partials: 0 });
            }
        }
        Ok(places)
    }

    /// Queues one run. The workspace was made large enough by [`Problem::poison`].
    pub(super) fn launch(&mut self, ready: &Ready, which: Which, outputs: &Outputs) -> Result<(), Error> {
        let queue = self.queue()?;
        let queue = queue.submit()?;
        let places = self.places(&queue, which, outputs)?;
        let bytes = places.scratch_bytes(&ready.source);
        let memory = if bytes == 0 { None } else { self.workspace.region(&queue, bytes)? };
        enqueue(&queue, ready, &places, memory)
    }

    /// What the last run left beside its outputs. Waits for it.
    pub(super) fn words(&mut self, ready: &Ready, which: Which, outputs: &Outputs) -> Result<Words, Error> {
        if ready.source.error.is_none() {
            self.stream.synchronize()?;
            return Ok(Vec::new());
        }
        let queue = self.queue()?;
        let submission = queue.submit()?;
        let places = self.places(&submission, which, outputs)?;
        let bytes = places.scratch_bytes(&ready.source);
        let Some(memory) = self.workspace.region(&submission, bytes)? else { return Ok(Vec::new()) };
        Ok(match self.subject {
            Subject::Kernel { .. } => error_words::<1>(&queue, ready, &places, &memory)?.to_vec(),
            Subject::Plan(_) => error_words::<{ 1 + PLAN_TOTALS }>(&queue, ready, &places, &memory)?.to_vec(),
        })
    }

    /// Where two results of it differ first: output, row and column.
    pub(super) fn difference(
        &self,
        baseline: &Baseline,
        rows: &Counting,
        (left, left_words): (&Outputs, &Words),
        (right, right_words): (&Outputs, &Words),
    ) -> Result<Option<String>, Error> {
        if left_words != right_words {
            let what = match self.subject {
                Subject::Kernel { .. } => "error word",
                Subject::Plan(_) => "error word, blocks, partial sums and placed positions",
            };
            return Ok(Some(format!("{what}: {left_words:?} in place of {right_words:?}")));
        }
        let names = self.sizes.outputs.iter().map(|(name, _)| name);
        let pairs = names.zip(left.iter().zip(right)).flat_map(|(name, (left, right))| {
            let pair = move |(tensor, (left, right))| (name, tensor, left, right);
            left.iter().zip(right).enumerate().map(pair)
        });
        let pairs: Vec<(&String, usize, &AnyTensor, &AnyTensor)> = pairs.collect();
        let mut found = Found::new(&self.stream, pairs.len() as u64)?;
        for (slot, (name, _, left, right)) in pairs.iter().enumerate() {
            let written = self.written(name, left_words).min(left.rows()).min(right.rows());
            let (left, right) = (left.view().rows(0..written)?, right.view().rows(0..written)?);
            baseline.compare(left, right, rows.first(written)?, &mut found, slot as u64)?;
        }
        let found = found.read(&self.stream)?;
        let first = pairs.iter().zip(found).find_map(|(pair, at)| Some((pair, at?)));
        Ok(first.map(|((name, tensor, left, _), at)| {
            let (row, column) = (at / left.columns(), at % left.columns());
            format!("{name}[{tensor}], row {row}, column {column}")
        }))
    }

    /// Rows of an output that mean something: a plan's list of blocks may be shorter than its memory.
    fn written(&self, name: &str, words: &Words) -> u64 {
        let is_list = matches!(self.subject, Subject::Plan(_)) && name == format!("{:?}", PlanArray::BlockRow);
        words.get(1).copied().filter(|_| is_list).unwrap_or(u64::MAX)
    }
}
