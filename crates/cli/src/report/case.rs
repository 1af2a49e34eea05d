//! What is measured: a kernel in both directions, with its sizes.
//!
//! Every op of the language so far treats columns alike and apart, so H can be
//! cut into slices that are calls of their own. A reduction over columns will
//! have to take its H whole.

use std::ops::Range;
use std::sync::Arc;

use rowloom_codegen::ir::{Direction, Extent, FloatType, InputKind, OutputKind};
use rowloom_codegen::{DType, Verified};
use rowloom_op_adaln::Layout;
use rowloom_op_adaln::layout::MODALITIES;

use crate::error::{Error, Result};

/// A kernel in both directions, with the sizes it is measured at.
pub struct Case {
    /// As declared.
    pub forward: Arc<Verified>,
    /// Derived, every gradient wanted.
    pub backward: Arc<Verified>,
    /// What every float parameter is.
    pub dtype: DType,
    /// Row counts, in the kernel's order.
    pub counts: Vec<u64>,
    /// H.
    pub hidden: u64,
    /// Where positions point.
    pub layout: Layout,
}

impl Case {
    /// Both directions.
    pub fn kernels(&self) -> [&Verified; 2] {
        [&self.forward, &self.backward]
    }

    /// One of them.
    pub fn kernel(&self, direction: Direction) -> &Verified {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Row counts by their names.
    pub fn named_counts<'k>(&self, kernel: &'k Verified) -> Vec<(&'k str, u64)> {
        named(kernel, &self.counts)
    }

    /// The value of a size in row counts.
    pub fn rows(&self, extent: Extent) -> Result<u64> {
        rows(extent, &self.counts)
    }

    /// What a float type is in this report.
    pub fn float(&self, ty: FloatType) -> DType {
        match ty {
            FloatType::Param(_) => self.dtype,
            FloatType::Fixed(dtype) => dtype,
        }
    }

    /// Bytes that the position tensors of one direction take per position and column; the larger.
    pub fn bytes_per_position_and_column(&self) -> u64 {
        let of_kernel = |kernel: &Verified| self.read_bytes(kernel) + self.written_bytes(kernel);
        of_kernel(&self.forward).max(of_kernel(&self.backward))
    }

    /// Bytes per position and column that a call reads.
    pub fn read_bytes(&self, kernel: &Verified) -> u64 {
        let inputs = kernel.inputs.iter().map(|input| match input.kind {
            InputKind::Rows(ty) => u64::from(input.count) * u64::from(self.float(ty).bytes()),
            InputKind::Table { .. } | InputKind::Index { .. } => 0,
        });
        inputs.sum()
    }

    /// Bytes per position and column that it writes.
    pub fn written_bytes(&self, kernel: &Verified) -> u64 {
        let outputs = kernel.outputs.iter().map(|output| match output.kind {
            OutputKind::Rows(ty) => output.values.len() as u64 * u64::from(self.float(ty).bytes()),
            OutputKind::Table { .. } => 0,
        });
        outputs.sum()
    }

    /// H in slices of at most `at_once` columns.
    pub fn slices(&self, at_once: u64) -> Vec<Range<u64>> {
        let starts = (0..self.hidden).step_by(at_once.max(1) as usize);
        starts.map(|start| start..self.hidden.min(start + at_once.max(1))).collect()
    }

    /// Timesteps of the layout: those that an index of that name may have, else a third of the
    /// rows that an index may name.
    pub fn timesteps(&self, kernel: &Verified) -> Result<u64> {
        let mut timesteps = 1;
        for input in &kernel.inputs {
            let InputKind::Index { bound, .. } = input.kind else { continue };
            if input.name == "timestep" {
                return self.rows(bound);
            }
            timesteps = self.rows(bound)?.div_ceil(MODALITIES).max(timesteps);
        }
        Ok(timesteps)
    }
}

/// Row counts by their names.
pub fn named<'k>(kernel: &'k Verified, counts: &[u64]) -> Vec<(&'k str, u64)> {
    kernel.counts.iter().map(String::as_str).zip(counts.iter().copied()).collect()
}

/// The value of a size in row counts.
pub fn rows(extent: Extent, counts: &[u64]) -> Result<u64> {
    let rows = extent.value(counts).filter(|&rows| rows > 0);
    rows.ok_or_else(|| Error::failed(format!("{extent:?} is no number of rows for the row counts {counts:?}")))
}

/// Whether a kernel has sums over positions.
pub fn has_sums(kernel: &Verified) -> bool {
    kernel.outputs.iter().any(|output| matches!(output.kind, OutputKind::Table { .. }))
}
