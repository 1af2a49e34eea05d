//! The inputs of a measured kernel: what each seed makes them, whole, in
//! slices of columns, and for chosen positions.
//!
//! Every op of the language so far treats columns alike and apart, so H can be
//! cut into slices that are calls of their own. A reduction over columns will
//! have to take its H whole.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rowloom_codegen::ir::{Direction, Extent, FloatType, InputKind, OutputKind};
use rowloom_codegen::{DType, Verified};
use rowloom_op_adaln::layout::MODALITIES;
use rowloom_op_adaln::random::{self, Normals};
use rowloom_op_adaln::{Indices, Layout};

use super::host::{Elements, HostTensor};

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

/// The inputs of one call: per input of the kernel its tensors.
#[derive(Clone, Debug)]
pub struct Batch {
    /// S.
    pub positions: usize,
    /// Columns of a chunk.
    pub hidden: usize,
    /// In the kernel's order.
    pub inputs: Vec<Vec<HostTensor>>,
}

/// Columns that are stored and drawn together, for the cache's sake.
const TILE: usize = 128;

impl Case {
    /// The batch of this seed: `columns` of every chunk.
    pub fn batch(&self, kernel: &Verified, positions: u64, seed: u64, columns: Range<u64>) -> Batch {
        let hidden = (columns.end - columns.start) as usize;
        let indices = self.layout.indices(positions, self.timesteps(kernel), seed);
        let positions = positions as usize;
        let inputs = kernel.inputs.iter().enumerate().map(|(number, input)| {
            let stream = |element: u32| {
                let direction = u64::from(kernel.direction == Direction::Backward);
                random::tensor(direction << 16 | (number as u64) << 8 | u64::from(element))
            };
            let tensors = (0..input.count).into_par_iter();
            match input.kind {
                InputKind::Rows(ty) => tensors
                    .map(|element| {
                        let draw = Draw { seed, stream: stream(element), scale: 1.0, dtype: self.float(ty) };
                        draw.tensor(positions, hidden, &[columns.start])
                    })
                    .collect(),
                InputKind::Table { ty, rows, chunks } => tensors
                    .map(|element| {
                        let first: Vec<u64> =
                            (0..u64::from(chunks)).map(|chunk| chunk * self.hidden + columns.start).collect();
                        // A cotangent is a gradient, not a table of weights.
                        let scale = if kernel.direction == Direction::Forward { 0.1 } else { 1.0 };
                        let draw = Draw { seed, stream: stream(element), scale, dtype: self.float(ty) };
                        draw.tensor(self.rows(rows), hidden, &first)
                    })
                    .collect(),
                InputKind::Index { bound, .. } => {
                    let values = index(&input.name, &indices, self.rows(bound));
                    vec![HostTensor::new(positions, 1, Elements::I64(values))]
                }
            }
        });
        Batch { positions, hidden, inputs: inputs.collect() }
    }

    /// Both directions.
    pub fn kernels(&self) -> [&Verified; 2] {
        [&self.forward, &self.backward]
    }

    /// Row counts by their names.
    pub fn named_counts<'k>(&self, kernel: &'k Verified) -> Vec<(&'k str, u64)> {
        kernel.counts.iter().map(String::as_str).zip(self.counts.iter().copied()).collect()
    }

    /// The value of a size in row counts.
    pub fn rows(&self, extent: Extent) -> usize {
        extent.value(&self.counts).unwrap_or(1) as usize
    }

    /// What a float type is in this report.
    pub fn float(&self, ty: FloatType) -> DType {
        match ty {
            FloatType::Param(_) => self.dtype,
            FloatType::Fixed(dtype) => dtype,
        }
    }

    /// Bytes that the position tensors of both directions take per position and column.
    pub fn bytes_per_position_and_column(&self) -> u64 {
        let mut bytes = 0;
        for kernel in [&self.forward, &self.backward] {
            let mut of_kernel = 0;
            for input in &kernel.inputs {
                if let InputKind::Rows(ty) = input.kind {
                    of_kernel += u64::from(input.count) * u64::from(self.float(ty).bytes());
                }
            }
            for output in &kernel.outputs {
                if let OutputKind::Rows(ty) = output.kind {
                    of_kernel += output.values.len() as u64 * u64::from(self.float(ty).bytes());
                }
            }
            bytes = of_kernel.max(bytes);
        }
        bytes
    }

    /// H in slices of at most `at_once` columns.
    pub fn slices(&self, at_once: u64) -> Vec<Range<u64>> {
        let starts = (0..self.hidden).step_by(at_once.max(1) as usize);
        starts.map(|start| start..self.hidden.min(start + at_once.max(1))).collect()
    }

    /// Timesteps of the layout: those that an index of that name may have, else a third of the rows.
    fn timesteps(&self, kernel: &Verified) -> u64 {
        let bound = kernel.inputs.iter().find_map(|input| match input.kind {
            InputKind::Index { bound, .. } if input.name == "timestep" => Some(self.rows(bound) as u64),
            InputKind::Index { .. } | InputKind::Rows(_) | InputKind::Table { .. } => None,
        });
        bound.unwrap_or_else(|| self.counts.iter().copied().max().unwrap_or(1).div_ceil(MODALITIES))
    }
}

/// An index takes what the layout holds under its name; any other one the layout's table row.
fn index(name: &str, indices: &Indices, bound: usize) -> Vec<i64> {
    let bound = bound as i64;
    let values: Vec<i64> = match name {
        "timestep" => indices.timestep.clone(),
        "modality" => indices.modality.clone(),
        _ => {
            let pairs = indices.timestep.iter().zip(&indices.modality);
            pairs.map(|(timestep, modality)| timestep * MODALITIES as i64 + modality).collect()
        }
    };
    values.into_iter().map(|value| value % bound).collect()
}

/// How the numbers of one tensor are drawn.
#[derive(Clone, Copy)]
struct Draw {
    seed: u64,
    stream: u64,
    scale: f32,
    dtype: DType,
}

impl Draw {
    /// `hidden` columns from each of the columns `first`, side by side.
    fn tensor(self, rows: usize, hidden: usize, first: &[u64]) -> HostTensor {
        let width = first.len() * hidden;
        let mut elements = Elements::zeros(self.dtype, rows * width);
        for (chunk, first) in first.iter().enumerate() {
            for tile in (0..hidden).step_by(TILE) {
                let columns = TILE.min(hidden - tile);
                let mut normals = Normals::new(self.seed, self.stream, first + tile as u64, columns);
                for row in 0..rows {
                    let at = row * width + chunk * hidden + tile;
                    normals.row(|column, number| elements.store(at + column, number * self.scale));
                }
            }
        }
        HostTensor::new(rows, width, elements)
    }
}

impl Batch {
    /// The same call for these positions, in this order.
    pub fn select(&self, kernel: &Verified, positions: &[u32]) -> Batch {
        let inputs = kernel.inputs.iter().zip(&self.inputs).map(|(input, tensors)| match input.kind {
            InputKind::Rows(_) | InputKind::Index { .. } => {
                tensors.iter().map(|tensor| tensor.select(positions)).collect()
            }
            InputKind::Table { .. } => tensors.clone(),
        });
        Batch { positions: positions.len(), hidden: self.hidden, inputs: inputs.collect() }
    }

    /// The table row that row expression `number` of the kernel names at each position.
    pub fn rows(&self, kernel: &Verified, number: usize) -> Vec<u64> {
        let expr = &kernel.rows[number];
        let mut rows = vec![expr.offset; self.positions];
        for &(input, factor) in &expr.terms {
            if let Elements::I64(values) = &*self.inputs[input.index()][0].elements {
                for (row, value) in rows.iter_mut().zip(values) {
                    *row += factor * *value as u64;
                }
            }
        }
        rows
    }
}
