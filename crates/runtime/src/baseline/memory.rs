//! Memory itself, and a clock that stands still: on a GPU alone.

use rowloom_codegen::DType;
use rowloom_codegen::cuda::{Count, Param};

use super::Baseline;
use super::launch::{Launch, Text, contiguous, expect, input, output};
use crate::error::Error;
use crate::tensor::{AnyView, AnyViewMut};

/// Bytes that a thread moves at once.
const QUAD: u64 = 16;

/// Quads of a thread that plain loops over memory are tried with.
pub const UNROLLS: [u64; 4] = [1, 2, 4, 8];

const THREADS: u32 = 256;

impl Baseline {
    /// Reads a tensor and keeps nothing, `unroll` quads of a thread at a time.
    ///
    /// # Errors
    /// A tensor with gaps between its rows; what the device reports.
    pub fn read(&self, tensor: AnyView<'_>, sink: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
        let params = vec![input(0), output(0), Param::Positions];
        self.memory("read", quads("the tensor", &tensor)?, unroll, params, &[tensor], &[sink.as_view()])
    }

    /// Writes zeros, `unroll` quads of a thread at a time.
    ///
    /// # Errors
    /// A tensor with gaps between its rows; what the device reports.
    pub fn write(&self, tensor: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
        let view = tensor.as_view();
        let params = vec![output(0), Param::Positions];
        self.memory("write", quads("the tensor", &view)?, unroll, params, &[], &[view])
    }

    /// Copies, `unroll` quads of a thread at a time.
    ///
    /// # Errors
    /// Tensors with gaps between their rows or of unequal sizes; what the device reports.
    pub fn copy(&self, to: &mut AnyViewMut<'_>, from: AnyView<'_>, unroll: u64) -> Result<(), Error> {
        let to = to.as_view();
        expect("the source", &from, to.element_type(), to.row_count(), to.column_count())?;
        let params = vec![output(0), input(0), Param::Positions];
        self.memory("copy", quads("the target", &to)?, unroll, params, &[from], &[to])
    }

    /// Keeps the stream busy for `us` microseconds: what is queued meanwhile follows without a gap.
    ///
    /// # Errors
    /// What the device reports.
    pub fn delay(&self, us: u64) -> Result<(), Error> {
        let text = Text::Gpu { entry: "delay", dtype: DType::F32, rows: 1, hidden: 8, factor: 1, unroll: 1 };
        let (grid, params) = (Count::Fixed(1), vec![Param::Positions]);
        self.run_on_gpu(&Launch { text, threads: 32, grid, params, positions: us, inputs: &[], outputs: &[] })
    }

    fn memory(
        &self,
        entry: &'static str,
        quads: u64,
        unroll: u64,
        params: Vec<Param>,
        inputs: &[AnyView<'_>],
        outputs: &[AnyView<'_>],
    ) -> Result<(), Error> {
        self.target(&[inputs, outputs].concat())?;
        let text = Text::Gpu { entry, dtype: DType::F32, rows: 1, hidden: 8, factor: 1, unroll };
        let grid = Count::Positions { per: u64::from(THREADS) * unroll, each: 1 };
        self.run_on_gpu(&Launch { text, threads: THREADS, grid, params, positions: quads, inputs, outputs })
    }
}

/// Whole quads of a tensor.
fn quads(argument: &str, view: &AnyView<'_>) -> Result<u64, Error> {
    Ok(contiguous(argument, view)? * view.element_type().bytes() / QUAD)
}
