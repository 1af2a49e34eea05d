//! rowloom itself, in either order of sums.

use std::sync::Arc;

use rowloom_codegen::ir::{Direction, InputKind, OutputKind};
use rowloom_codegen::{Schedule, Verified};
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Device, ElementType, RowPlan, RowShape, Stream, Term, Tiling,
    allocate_outputs, run, spec,
};

use crate::error::{Error, Result};

use super::accuracy::Outputs;
use super::host::{Elements, HostTensor, with_elements};
use super::implementation::{Implementation, Loaded};
use super::inputs::{Batch, Case};
use super::latency::{Clock, Latency};

/// A declared kernel on a device.
pub struct Rowloom {
    name: &'static str,
    source: String,
    forward: Arc<Verified>,
    backward: Arc<Verified>,
    counts: Vec<u64>,
    stream: Stream,
}

/// Cuts of the CPU's work that are compared with its own choice: columns of a task, threads.
const TILINGS: [(u64, usize); 4] = [(64, 1), (1000, 2), (257, 3), (1 << 20, 8)];

impl Rowloom {
    /// This kernel pair, with the sizes of `case`, on `device`.
    pub fn new(
        name: &'static str,
        source: String,
        kernels: (Arc<Verified>, Arc<Verified>),
        case: &Case,
        device: &Device,
    ) -> Result<Rowloom> {
        let stream = device.stream().map_err(Error::failed)?;
        let (forward, backward) = kernels;
        Ok(Rowloom { name, source, forward, backward, counts: case.counts.clone(), stream })
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    fn named_counts<'k>(&self, kernel: &'k Verified) -> Vec<(&'k str, u64)> {
        kernel.counts.iter().map(String::as_str).zip(self.counts.iter().copied()).collect()
    }
}

impl Implementation for Rowloom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn source(&self) -> String {
        self.source.clone()
    }

    fn load<'a>(&'a self, direction: Direction, batch: &'a Batch) -> Result<Box<dyn Loaded + 'a>> {
        let kernel = self.kernel(direction);
        let inputs = Inputs::place(&self.stream, batch)?;
        let counts = self.named_counts(kernel);
        let outputs = allocate_outputs(&self.stream, kernel, &inputs.views()?, &counts, None).map_err(Error::failed)?;
        let mut placed = Placed { kernel, stream: &self.stream, inputs, outputs, schedules: Vec::new() };
        placed.schedules = placed.legal_schedules()?;
        Ok(Box::new(placed))
    }

    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
        super::planned::latency(&self.stream, (&self.forward, &self.backward), case, positions, clock)
    }
}

/// The inputs of a call where its device can read them.
pub enum Inputs<'b> {
    /// The program's own memory.
    Host(&'b Batch),
    /// Copies.
    Device(Vec<Vec<AnyTensor>>),
}

impl<'b> Inputs<'b> {
    /// Puts a batch where the stream's device can read it.
    pub fn place(stream: &Stream, batch: &'b Batch) -> Result<Inputs<'b>> {
        if stream.device() == Device::cpu() {
            return Ok(Inputs::Host(batch));
        }
        let copy = |tensor: &HostTensor| {
            let (rows, columns) = (tensor.rows as u64, tensor.columns as u64);
            with_elements!(&*tensor.elements, values => AnyTensor::from_slice(stream, values, rows, columns))
        };
        let inputs = batch.inputs.iter().map(|tensors| tensors.iter().map(copy).collect());
        Ok(Inputs::Device(inputs.collect::<std::result::Result<_, _>>().map_err(Error::failed)?))
    }

    /// Views of them, as a call takes them.
    pub fn views(&self) -> Result<Vec<Vec<AnyView<'_>>>> {
        match self {
            Inputs::Host(batch) => host_views(batch),
            Inputs::Device(tensors) => Ok(views(tensors)),
        }
    }
}

/// Views of a batch in the program's own memory.
pub fn host_views(batch: &Batch) -> Result<Vec<Vec<AnyView<'_>>>> {
    let views = batch.inputs.iter().map(|tensors| tensors.iter().map(host_view).collect());
    views.collect::<std::result::Result<_, _>>().map_err(Error::failed)
}

fn host_view(tensor: &HostTensor) -> std::result::Result<AnyView<'_>, rowloom_runtime::Error> {
    let (rows, columns) = (tensor.rows as u64, tensor.columns as u64);
    with_elements!(&*tensor.elements, values => AnyView::from_slice(values, rows, columns))
}

/// Views of tensors, as a call takes them.
pub fn views(tensors: &[Vec<AnyTensor>]) -> Vec<Vec<AnyView<'_>>> {
    tensors.iter().map(|tensors| tensors.iter().map(AnyTensor::view).collect()).collect()
}

/// The same, to be written.
pub fn views_mut(tensors: &mut [Vec<AnyTensor>]) -> Vec<Vec<AnyViewMut<'_>>> {
    tensors.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect()
}

struct Placed<'a> {
    kernel: &'a Verified,
    stream: &'a Stream,
    inputs: Inputs<'a>,
    outputs: Vec<Vec<AnyTensor>>,
    /// All legal ones; none on a CPU.
    schedules: Vec<Schedule>,
}

impl Placed<'_> {
    fn legal_schedules(&self) -> Result<Vec<Schedule>> {
        let Some(arch) = self.stream.device().arch() else {
            return Ok(Vec::new());
        };
        let sums = self.kernel.outputs.iter().any(|output| matches!(output.kind, OutputKind::Table { .. }));
        let inputs = self.inputs.views()?;
        let spec = spec(self.kernel, &inputs, &views(&self.outputs), sums, arch).map_err(Error::failed)?;
        let mut schedules = Schedule::space(self.kernel, &spec);
        schedules.retain(|schedule| schedule.check(self.kernel, &spec).is_ok());
        Ok(schedules)
    }
}

impl Loaded for Placed<'_> {
    fn run(&mut self, schedule: Option<usize>) -> Result<Outputs> {
        // What a run leaves unwritten must not pass for what the last run wrote.
        for mut output in views_mut(&mut self.outputs).into_iter().flatten() {
            output.fill(self.stream, 0xff).map_err(Error::failed)?;
        }
        let (stream, schedule) = match schedule {
            None => (self.stream.clone(), None),
            Some(number) if self.stream.device() == Device::cpu() => {
                let (columns, threads) = TILINGS[number];
                (Stream::cpu(Tiling::new(columns, threads)), None)
            }
            Some(number) => (self.stream.clone(), self.schedules.get(number).copied()),
        };
        let inputs = self.inputs.views()?;
        let mut outputs = views_mut(&mut self.outputs);
        let call = Call { inputs: &inputs, outputs: &mut outputs, plans: None, schedule, workspace: None };
        run(&stream, self.kernel, call).map_err(Error::failed)?;
        self.outputs.iter().map(|tensors| tensors.iter().map(|tensor| read(&stream, tensor)).collect()).collect()
    }

    fn schedules(&self) -> usize {
        if self.stream.device() == Device::cpu() { TILINGS.len() } else { self.schedules.len() }
    }
}

/// Its elements, in the program's own memory.
pub fn read(stream: &Stream, tensor: &AnyTensor) -> Result<HostTensor> {
    use rowloom_codegen::{DType, IntType};
    let elements = match tensor.element_type() {
        ElementType::Float(DType::F32) => tensor.to_vec(stream).map(Elements::F32),
        ElementType::Float(DType::F16) => tensor.to_vec(stream).map(Elements::F16),
        ElementType::Float(DType::Bf16) => tensor.to_vec(stream).map(Elements::Bf16),
        ElementType::Int(IntType::I64) => tensor.to_vec(stream).map(Elements::I64),
        other @ (ElementType::Int(IntType::U8 | IntType::I32) | ElementType::U32) => {
            return Err(Error::failed(format!("an output of a kernel holds {other}, which no kernel writes")));
        }
    };
    let elements = elements.map_err(Error::failed)?;
    Ok(HostTensor::new(tensor.rows() as usize, tensor.columns() as usize, elements))
}

/// The plans that a kernel takes, one per row expression.
pub fn plans(stream: &Stream, kernel: &Verified, case: &Case, inputs: &[Vec<AnyView<'_>>]) -> Result<Vec<RowPlan>> {
    let plan = |row: &rowloom_codegen::ir::RowExpr| {
        let term = |&(input, factor): &(rowloom_codegen::ir::InputId, u64)| {
            let declared = &kernel.inputs[input.index()];
            let (bound, pad) = match declared.kind {
                InputKind::Index { bound, pad, .. } => (case.rows(bound) as u64, pad),
                InputKind::Rows(_) | InputKind::Table { .. } => (0, None),
            };
            Term { name: declared.name.clone(), factor, bound, pad }
        };
        let shape = RowShape {
            terms: row.terms.iter().map(term).collect(),
            offset: row.offset,
            rows: case.rows(row.rows) as u64,
            block: kernel.order.block,
        };
        let indices: Vec<AnyView<'_>> = row.terms.iter().map(|(input, _)| inputs[input.index()][0]).collect();
        RowPlan::build(stream, &shape, &indices)
    };
    kernel.rows.iter().map(plan).collect::<std::result::Result<_, _>>().map_err(Error::failed)
}
