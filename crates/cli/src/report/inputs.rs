//! The inputs of a measured kernel: what each seed makes them, whole, in
//! slices of columns, and for chosen positions.

use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};
use rayon::prelude::*;
use rowloom_codegen::ir::{Direction, InputKind};
use rowloom_codegen::{DType, Verified};
use rowloom_op_adaln::Indices;
use rowloom_op_adaln::layout::MODALITIES;
use rowloom_op_adaln::random::{self, Normals};

use crate::error::Result;

use super::case::Case;
use super::host::{Elements, HostTensor};

/// The inputs of one call: per input of the kernel its tensors.
#[derive(Clone, Debug)]
pub struct Batch {
    /// S.
    pub positions: usize,
    /// Columns of a chunk.
    pub hidden: usize,
    /// Per input of the kernel its tensors.
    pub inputs: Vec<Vec<HostTensor>>,
}

/// Columns that are stored and drawn together, for the cache's sake.
const TILE: usize = 128;

/// Rows that are put together by one task.
const ROWS: usize = 64;

impl Case {
    /// The batch of this seed: `columns` of every chunk.
    pub fn batch(&self, kernel: &Verified, positions: u64, seed: u64, columns: Range<u64>) -> Result<Batch> {
        let hidden = (columns.end - columns.start) as usize;
        let indices = self.layout.indices(positions, self.timesteps(kernel)?, seed);
        let positions = positions as usize;
        let mut inputs = Vec::new();
        for (number, input) in kernel.inputs.iter().enumerate() {
            let draw = |element: u32, scale, dtype| {
                let direction = u64::from(kernel.direction == Direction::Backward);
                let stream = random::tensor(direction << 16 | (number as u64) << 8 | u64::from(element));
                Draw { seed, stream, scale, dtype }
            };
            inputs.push(match input.kind {
                InputKind::Rows(ty) => {
                    let tensor =
                        |element| draw(element, 1.0, self.float(ty)).tensor(positions, hidden, &[columns.start]);
                    (0..input.count).map(tensor).collect()
                }
                InputKind::Table { ty, rows, chunks } => {
                    let first: Vec<u64> =
                        (0..u64::from(chunks)).map(|chunk| chunk * self.hidden + columns.start).collect();
                    // A cotangent is a gradient, not a table of weights.
                    let scale = if kernel.direction == Direction::Forward { 0.1 } else { 1.0 };
                    let rows = self.rows(rows)? as usize;
                    (0..input.count)
                        .map(|element| draw(element, scale, self.float(ty)).tensor(rows, hidden, &first))
                        .collect()
                }
                InputKind::Index { bound, .. } => {
                    let values = index(&input.name, &indices, self.rows(bound)?);
                    vec![HostTensor::new(positions, 1, Elements::I64(values))]
                }
            });
        }
        Ok(Batch { positions, hidden, inputs })
    }
}

/// An index takes what the layout holds under its name; any other one the layout's table row.
pub fn index(name: &str, indices: &Indices, bound: u64) -> Vec<i64> {
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
        let elements = match self.dtype {
            DType::F32 => Elements::F32(self.drawn(rows, hidden, first, |number| number)),
            DType::F16 => Elements::F16(self.drawn(rows, hidden, first, f16::from_f32)),
            DType::Bf16 => Elements::Bf16(self.drawn(rows, hidden, first, bf16::from_f32)),
        };
        HostTensor::new(rows, width, elements)
    }

    fn drawn<E: Pod + Send + Sync>(
        self,
        rows: usize,
        hidden: usize,
        first: &[u64],
        round: impl Fn(f32) -> E + Sync,
    ) -> Vec<E> {
        let width = first.len() * hidden;
        let mut elements: Vec<E> = bytemuck::zeroed_vec(rows * width);
        let tiles: Vec<(usize, u64, usize)> = (0..first.len())
            .flat_map(|chunk| (0..hidden).step_by(TILE).map(move |tile| (chunk, tile)))
            .map(|(chunk, tile)| (chunk * hidden + tile, first[chunk] + tile as u64, TILE.min(hidden - tile)))
            .collect();
        // Columns are drawn apart and put together a few tiles at a time: memory stays small.
        for tiles in tiles.chunks(2 * rayon::current_num_threads()) {
            let draw = |&(at, first, columns): &(usize, u64, usize)| {
                let mut drawn = Vec::with_capacity(rows * columns);
                let mut normals = Normals::new(self.seed, self.stream, first, columns);
                for _ in 0..rows {
                    normals.row(|_, number| drawn.push(round(number * self.scale)));
                }
                (at, columns, drawn)
            };
            let drawn: Vec<(usize, usize, Vec<E>)> = tiles.par_iter().map(draw).collect();
            elements.par_chunks_mut(ROWS * width).enumerate().for_each(|(piece, elements)| {
                for (row, elements) in elements.chunks_exact_mut(width).enumerate() {
                    for (at, columns, drawn) in &drawn {
                        let row = piece * ROWS + row;
                        elements[*at..at + columns].copy_from_slice(&drawn[row * columns..][..*columns]);
                    }
                }
            });
        }
        elements
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
            for (row, value) in rows.iter_mut().zip(self.index(input.index())) {
                *row += factor * *value as u64;
            }
        }
        rows
    }

    /// The numbers of an index; none of an input that is no index.
    pub fn index(&self, input: usize) -> &[i64] {
        match &*self.inputs[input][0].elements {
            Elements::I64(values) => values,
            Elements::F32(_) | Elements::F16(_) | Elements::Bf16(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_hold_the_numbers_of_the_whole() {
        let draw = Draw { seed: 3, stream: random::tensor(1), scale: 0.1, dtype: DType::F32 };
        let hidden = 300;
        let whole = draw.tensor(130, hidden, &[0, hidden as u64]);
        let slice = draw.tensor(130, 140, &[150, 150 + hidden as u64]);
        for row in 0..130 {
            let (whole, slice) = (whole.row(row), slice.row(row));
            assert_eq!(&whole[150 * 4..290 * 4], &slice[..140 * 4]);
            assert_eq!(&whole[(300 + 150) * 4..(300 + 290) * 4], &slice[140 * 4..]);
        }
        let mut normals = Normals::new(3, random::tensor(1), 7, 1);
        let drawn: Vec<u8> = (0..130).flat_map(|row| whole.row(row)[7 * 4..8 * 4].to_vec()).collect();
        let mut expected = Vec::new();
        for _ in 0..130 {
            normals.row(|_, number| expected.extend((number * 0.1).to_ne_bytes()));
        }
        assert_eq!(drawn, expected);
    }
}
