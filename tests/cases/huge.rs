//! Tensors too large to compare on the host: gathered on the device, so that every row and
//! column is known, and compared in rows and columns of which some are chosen.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType, Verified};
use rowloom::{AnyTensor, AnyView, AnyViewMut, Call, Device, ElementType, Stream, run};

use super::direction;
use super::lay::{HostTensor, POISON, download, upload};
use super::order::finite_values;
use super::problem::column;

/// H of the op.
pub const HIDDEN: u64 = 5376;

/// Rows of the table that tensors are gathered from: a prime, so that no row repeats at a tile.
pub const SOURCE_ROWS: u64 = 1021;

/// Columns of H that are compared: both ends and some between.
pub fn columns(hidden: u64) -> Vec<u64> {
    let mut columns = vec![0, 1, 7, 8, 767, 768, 1531, 2687, 3000, 4095, 4096, hidden - 2, hidden - 1];
    columns.retain(|&column| column < hidden);
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Row of the source for each position.
pub fn source_rows(positions: u64) -> Vec<i64> {
    (0..positions).map(|position| ((position * 7919 + position / SOURCE_ROWS) % SOURCE_ROWS) as i64).collect()
}

/// A kernel of one chunk, or the op itself, declared or derived.
pub fn kernel(name: &str, way: Direction) -> Verified {
    direction(name, way, Accumulate::F32)
}

/// A table with finite values.
pub fn source(seed: u64, columns: u64) -> HostTensor {
    finite_values(&mut ChaCha8Rng::seed_from_u64(seed), DType::Bf16, SOURCE_ROWS, columns)
}

pub fn bf16(stream: &Stream, rows: u64, columns: u64) -> AnyTensor {
    let mut tensor = AnyTensor::uninit(stream, ElementType::Float(DType::Bf16), rows, columns).unwrap();
    tensor.view_mut().fill(stream, POISON).unwrap();
    tensor
}

pub fn put(stream: &Stream, tensor: &HostTensor) -> AnyTensor {
    upload(stream, tensor.ty, &tensor.bytes, tensor.rows, tensor.columns).unwrap()
}

pub fn index(stream: &Stream, rows: &[i64]) -> AnyTensor {
    put(stream, &column(IntType::I64, rows.iter().copied()))
}

/// One call without plans.
pub fn call<'t>(stream: &Stream, kernel: &Verified, inputs: &[Vec<AnyView<'t>>], mut outputs: Vec<AnyViewMut<'t>>) {
    let mut outputs = [std::mem::take(&mut outputs)];
    let call = Call { inputs, outputs: &mut outputs, plans: None, schedule: None, workspace: None };
    run(stream, kernel, call).unwrap();
}

/// Position `p` of `view` is row `rows[p]` of `table`, at the ends, around every 2^31st element and between.
pub fn check_rows(stream: &Stream, view: AnyView<'_>, table: &HostTensor, rows: &[i64]) {
    let positions = view.row_count();
    let row_bytes = table.columns as usize * 2;
    let mut chosen: Vec<u64> = (0..200).map(|step| step * (positions - 1) / 199).collect();
    let edges = (1..).map(|edge| (edge << 31) / view.row_stride()).take_while(|&edge| edge <= positions);
    chosen.extend(edges.flat_map(|edge| edge.saturating_sub(2)..edge + 3).filter(|&edge| edge < positions));
    for position in chosen {
        let found = download(stream, view.rows(position..position + 1).unwrap()).unwrap();
        let row = rows[position as usize] as usize;
        assert!(found == table.bytes[row * row_bytes..][..row_bytes], "position {position} of {positions}");
    }
}

/// In the chosen columns, `sums` is the CPU's ordered sum by `to` of rows `from[p]` of `table`.
pub fn check_sums(stream: &Stream, sums: AnyView<'_>, table: &HostTensor, from: &[i64], to: &[i64]) {
    let chosen = columns(table.columns);
    let (rows, width) = (sums.row_count() as usize, chosen.len());
    let pick = |bytes: &[u8], row: usize, columns: u64| -> Vec<u8> {
        let element = |&at: &u64| &bytes[(row * columns as usize + at as usize) * 2..][..2];
        chosen.iter().flat_map(element).copied().collect()
    };
    let summands = from.iter().flat_map(|&row| pick(&table.bytes, row as usize, table.columns)).collect();
    let ty = ElementType::Float(DType::Bf16);
    let summands = HostTensor { ty, rows: from.len() as u64, columns: width as u64, bytes: summands };
    let cpu = Device::cpu().stream().unwrap();
    let (summands, to) = (put(&cpu, &summands), index(&cpu, to));
    let mut expected = bf16(&cpu, rows as u64, width as u64);
    let sum = kernel("row_scatter_sum", Direction::Forward);
    call(&cpu, &sum, &[vec![summands.view()], vec![to.view()]], vec![expected.view_mut()]);
    let expected = download(&cpu, expected.view()).unwrap();
    let found = download(stream, sums).unwrap();
    let found: Vec<u8> = (0..rows).flat_map(|row| pick(&found, row, table.columns)).collect();
    let at = expected.iter().zip(&found).position(|(expected, found)| expected != found);
    assert!(expected == found, "S = {}: row {:?} of the sums differs", from.len(), at.map(|at| at / (2 * width)));
}
