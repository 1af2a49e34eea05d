//! What rowloom is measured against and with, for reports and benchmarks only: the
//! steps of a framework, each with its result in memory; memory itself, and its
//! ceilings; times of queued work; and comparisons of rows where they lie. No kernel
//! of rowloom uses any of it.
//!
//! Work on an accelerator is queued. A framework's steps and memory's need a CPU
//! or a GPU; rows are gathered and compared in emulation too. A row outside the
//! table is skipped.

mod ceilings;
mod framework;
mod launch;
mod memory;
mod on_cpu;
mod queued;
mod rows;

pub use ceilings::{Ceiling, Ceilings};
pub use memory::UNROLLS;
pub use queued::{QueuedTimes, elapsed_us, median};
pub use rows::{Counting, Found, RowList, Rows};

use crate::error::Error;
use crate::stream::{Lane, Stream};
use crate::tensor::AnyView;
use launch::{Launch, Loaded};

/// The baseline on one stream: what it has loaded there.
pub struct Baseline {
    stream: Stream,
    /// Kernels by what they are specialised for; empty on a CPU, which loads none.
    loaded: Loaded,
}

/// Where a step runs.
#[derive(Clone, Copy)]
enum Target {
    Cpu,
    Gpu,
    Emulated,
}

impl Baseline {
    /// Of this stream. Loads a kernel when it is first called.
    pub fn new(stream: &Stream) -> Baseline {
        Baseline { stream: stream.clone(), loaded: Loaded::default() }
    }

    /// Its stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where a step over these tensors runs.
    fn target(&self, views: &[AnyView<'_>]) -> Result<Target, Error> {
        if let Some(view) = views.iter().find(|view| view.device() != self.stream.device()) {
            return Err(view.wrong_device("a tensor", &self.stream));
        }
        Ok(match &self.stream.0 {
            Lane::Cpu(_) => Target::Cpu,
            Lane::Accelerator(queue) if queue.engine.accelerator.name().starts_with("cuda") => Target::Gpu,
            Lane::Accelerator(_) => Target::Emulated,
        })
    }

    /// Queues a launch whose tensors are on the stream's device.
    fn run(&self, launch: &Launch<'_>) -> Result<(), Error> {
        match &self.stream.0 {
            Lane::Accelerator(queue) => self.loaded.run(queue, launch),
            Lane::Cpu(_) => Err(Error::OnlyGpu),
        }
    }

    /// The same for what is written for GPUs alone.
    fn run_on_gpu(&self, launch: &Launch<'_>) -> Result<(), Error> {
        match self.target(&[])? {
            Target::Gpu => self.run(launch),
            Target::Cpu | Target::Emulated => Err(Error::OnlyGpu),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyTensor, Device, ElementType, Nvrtc};
    use launch::Text;
    use rowloom_codegen::cuda::Count;
    use rowloom_codegen::{Arch, DType};

    fn compiles(nvrtc: &Nvrtc, text: Text, arch: Arch) {
        let (grid, params) = (Count::Fixed(1), Vec::new());
        let launch = Launch { text, threads: 128, grid, params, positions: 1, inputs: &[], outputs: &[] };
        let compiled = nvrtc.compile(&launch.source(), arch).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(compiled.log, "", "{text:?}, {arch}");
    }

    #[test]
    fn every_entry_compiles_for_every_type() {
        let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"));
        let gpu = |entry, dtype, unroll| Text::Gpu { entry, dtype, rows: 9, hidden: 5376, factor: 3, unroll };
        for (entry, dtypes) in [
            ("select", &DType::ALL[..]),
            ("scatter_add", &DType::ALL),
            ("add", &DType::ALL),
            ("fill_ones", &DType::ALL),
            ("add_index", &[DType::F32]),
            ("delay", &[DType::F32]),
        ] {
            for &dtype in dtypes {
                for arch in [80, 90] {
                    compiles(nvrtc, gpu(entry, dtype, 1), Arch(arch));
                }
            }
        }
        for (entry, unroll) in ["read", "write", "copy"].iter().flat_map(|entry| UNROLLS.map(|unroll| (*entry, unroll)))
        {
            compiles(nvrtc, gpu(entry, DType::F32, unroll), Arch::SM_90);
        }
        for (entry, (word_bytes, lanes)) in ["gather_rows", "compare_rows"]
            .into_iter()
            .flat_map(|entry| [(1, 1), (2, 8), (2, 1), (4, 4), (8, 2), (8, 1)].map(|size| (entry, size)))
        {
            compiles(nvrtc, Text::Rows { entry, word_bytes, lanes, columns: 5376 }, Arch(80));
        }
    }

    #[test]
    fn memory_is_measured_on_a_gpu_alone() {
        let baseline = Baseline::new(&Device::cpu().stream().expect("a CPU"));
        let ty = ElementType::Float(DType::Bf16);
        let mut tensor = AnyTensor::zeros(baseline.stream(), ty, 4, 4).expect("a tensor");
        assert!(matches!(baseline.write(&mut tensor.view_mut(), 2), Err(Error::OnlyGpu)));
        assert!(matches!(baseline.delay(1), Err(Error::OnlyGpu)));
    }
}
