//! rowloom itself, in either order of sums.

use std::sync::Arc;

use rowloom_codegen::ir::Direction;
use rowloom_codegen::{Schedule, Verified};
use rowloom_runtime::{AnyView, AnyViewMut, Call, Device, Stream, Tiling, run, spec};

use crate::error::{Error, Result};

use super::calls::Views;
use super::case::Case;
use super::clock::Clock;
use super::implementation::{Implementation, no_schedule};
use super::latency::Latency;

/// A declared kernel on a device.
pub struct Rowloom {
    name: &'static str,
    source: String,
    forward: Arc<Verified>,
    backward: Arc<Verified>,
    stream: Stream,
}

/// Cuts of the CPU's work that are compared with its own choice, in the place of a GPU's
/// schedules: columns of a task, threads.
const TILINGS: [(u64, usize); 4] = [(64, 1), (1000, 2), (257, 3), (1 << 20, 8)];

impl Rowloom {
    /// This kernel pair on `stream`.
    pub fn new(
        name: &'static str,
        source: String,
        kernels: (Arc<Verified>, Arc<Verified>),
        stream: &Stream,
    ) -> Rowloom {
        let (forward, backward) = kernels;
        Rowloom { name, source, forward, backward, stream: stream.clone() }
    }

    /// Every schedule that is legal for a call; none on a CPU.
    fn legal(
        &self,
        kernel: &Verified,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &[Vec<AnyView<'_>>],
    ) -> Result<Vec<Schedule>> {
        let Some(arch) = self.stream.device().arch() else {
            return Ok(Vec::new());
        };
        let spec = spec(kernel, inputs, outputs, false, arch).map_err(Error::failed)?;
        let mut schedules = Schedule::space(kernel, &spec);
        schedules.retain(|schedule| schedule.check(kernel, &spec).is_ok());
        Ok(schedules)
    }
}

impl Implementation for Rowloom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn source(&self) -> String {
        self.source.clone()
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    fn run<'t>(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'t>>],
        outputs: &mut [Vec<AnyViewMut<'t>>],
        schedule: Option<usize>,
    ) -> Result<()> {
        let kernel = self.kernel(direction);
        let (stream, schedule) = match schedule {
            None => (self.stream.clone(), None),
            Some(number) if self.stream.device() == Device::cpu() => {
                let tiling = TILINGS.get(number).ok_or_else(|| no_schedule(self.name, kernel, number, TILINGS.len()));
                let &(columns, threads) = tiling?;
                (Stream::cpu(Tiling::new(columns, threads).map_err(Error::failed)?), None)
            }
            Some(number) => {
                let views: Views<'_> =
                    outputs.iter().map(|tensors| tensors.iter().map(AnyViewMut::as_view).collect()).collect();
                let legal = self.legal(kernel, inputs, &views)?;
                let schedule = legal.get(number).ok_or_else(|| no_schedule(self.name, kernel, number, legal.len()))?;
                (self.stream.clone(), Some(*schedule))
            }
        };
        run(&stream, kernel, Call { inputs, outputs, plans: None, schedule, workspace: None }).map_err(Error::failed)
    }

    fn schedules(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &[Vec<AnyView<'_>>],
    ) -> Result<usize> {
        if self.stream.device() == Device::cpu() {
            return Ok(TILINGS.len());
        }
        Ok(self.legal(self.kernel(direction), inputs, outputs)?.len())
    }

    fn latency(&self, case: &Case, positions: u64, clock: &Clock<'_>) -> Result<Latency> {
        super::planned::latency(&self.stream, (&self.forward, &self.backward), case, positions, clock)
    }
}
