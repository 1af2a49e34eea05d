//! rowloom itself, in either order of sums.

use std::sync::Arc;

use rowloom_codegen::ir::Direction;
use rowloom_codegen::{Schedule, Verified};
use rowloom_runtime::{AnyTensor, Call, Device, Stream, Tiling, allocate_outputs, run, spec};

use crate::error::{Error, Result};

use super::host::Outputs;
use super::implementation::{Implementation, Loaded};
use super::inputs::{Batch, Case};
use super::latency::{Clock, Latency};
use super::placed::{Inputs, read, views, views_mut};

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
        let inputs = self.inputs.views()?;
        let spec = spec(self.kernel, &inputs, &views(&self.outputs), false, arch).map_err(Error::failed)?;
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
