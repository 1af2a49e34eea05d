//! On a GPU: tensors beyond 2^31 and 2^32 elements, grids beyond every axis, tables with more
//! rows than positions, one row with nearly all of them. Up to 20 GB of the GPU's memory a test.

mod cases;

use cases::gpu::gpu;
use cases::huge::{HIDDEN, SOURCE_ROWS, bf16, call, check_rows, check_sums, index, kernel, put, source, source_rows};
use cases::lay::HostTensor;
use cases::parallel::in_parallel;
use cases::problem::Problem;
use cases::{direction, width};
use rowloom::Stream;
use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType};
use rowloom_op_adaln::Layout;

/// Gathers into one tensor, then sums it by other rows.
fn check_one_tensor(stream: &Stream, positions: u64, hidden: u64) {
    let (table, from) = (source(positions, hidden), source_rows(positions));
    let to: Vec<i64> = (0..positions as i64).map(|position| position * position % 9).collect();
    let mut rows = bf16(stream, positions, hidden);
    {
        let (table, from) = (put(stream, &table), index(stream, &from));
        let gather = kernel("row_gather", Direction::Forward);
        call(stream, &gather, &[vec![table.view()], vec![from.view()]], vec![rows.view_mut()]);
    }
    check_rows(stream, rows.view(), &table, &from);
    let mut sums = bf16(stream, 9, hidden);
    {
        let to = index(stream, &to);
        let sum = kernel("row_scatter_sum", Direction::Forward);
        call(stream, &sum, &[vec![rows.view()], vec![to.view()]], vec![sums.view_mut()]);
    }
    check_sums(stream, sums.view(), &table, &from, &to);
}

#[test]
fn one_tensor_beyond_31_and_32_bits() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for positions in [399_458, 798_916] {
        check_one_tensor(&stream, positions, HIDDEN);
    }
}

/// Six (S, H) views of one buffer, written together by the op's forward and read together by its
/// backward.
fn check_six_views(stream: &Stream, timestep: &[i64], modality: &[i64], hidden: u64) {
    let positions = timestep.len() as u64;
    // The op has three rows a timestep.
    let (mut table, rows) = (source(positions, 6 * hidden), SOURCE_ROWS / 3 * 3);
    table.rows = rows;
    table.bytes.truncate((rows * table.columns * 2) as usize);
    let from: Vec<i64> = source_rows(positions).into_iter().map(|row| row % rows as i64).collect();
    let chunk_of_table = |chunk: u64| {
        let rows = table.bytes.chunks_exact(table.columns as usize * 2);
        let range = (chunk * hidden * 2) as usize..((chunk + 1) * hidden * 2) as usize;
        let bytes = rows.flat_map(|row| row[range.clone()].to_vec()).collect();
        HostTensor { bytes, columns: hidden, ..table }
    };
    let mut buffer = bf16(stream, 6 * positions, hidden);
    {
        let timestep = index(stream, &from.iter().map(|row| row / 3).collect::<Vec<_>>());
        let modality = index(stream, &from.iter().map(|row| row % 3).collect::<Vec<_>>());
        let table = put(stream, &table);
        let mut rest = buffer.view_mut();
        let mut outputs = Vec::new();
        for _ in 0..5 {
            let (first, others) = rest.split_rows(positions).unwrap();
            outputs.push(first);
            rest = others;
        }
        outputs.push(rest);
        let forward = kernel("adaln_row_gather", Direction::Forward);
        let inputs = [vec![table.view()], vec![timestep.view()], vec![modality.view()]];
        call(stream, &forward, &inputs, outputs);
    }
    let rows_of = |chunk: u64| buffer.view().rows(chunk * positions..(chunk + 1) * positions).unwrap();
    let views: Vec<_> = (0..6).map(rows_of).collect();
    for (chunk, view) in (0..6).zip(&views) {
        check_rows(stream, *view, &chunk_of_table(chunk), &from);
    }
    check_chunk_view(stream, &table, &chunk_of_table(5), &from);
    let mut sums = bf16(stream, 9, 6 * hidden);
    {
        let (timestep, modality) = (index(stream, timestep), index(stream, modality));
        let backward = kernel("adaln_row_gather", Direction::Backward);
        let inputs = [vec![timestep.view()], vec![modality.view()], views];
        call(stream, &backward, &inputs, vec![sums.view_mut()]);
    }
    let to: Vec<i64> = timestep.iter().zip(modality).map(|(timestep, modality)| timestep * 3 + modality).collect();
    for chunk in 0..6 {
        let sums = sums.view().columns(chunk * hidden..(chunk + 1) * hidden).unwrap();
        check_sums(stream, sums, &chunk_of_table(chunk), &from, &to);
    }
}

/// The last chunk of a table as a table of its own, without a copy.
fn check_chunk_view(stream: &Stream, table: &HostTensor, chunk: &HostTensor, rows: &[i64]) {
    let rows = &rows[..1000];
    let (table, from) = (put(stream, table), index(stream, rows));
    let mut out = bf16(stream, 1000, chunk.columns);
    let view = table.view().columns(table.columns() - chunk.columns..table.columns()).unwrap();
    let gather = kernel("row_gather", Direction::Forward);
    call(stream, &gather, &[vec![view], vec![from.view()]], vec![out.view_mut()]);
    check_rows(stream, out.view(), chunk, rows);
}

#[test]
fn six_views_of_one_buffer_beyond_31_and_32_bits() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for positions in [66_577, 133_153] {
        let layout: Layout = "interleaved".parse().unwrap();
        let indices = layout.indices(positions, 3, 11);
        check_six_views(&stream, &indices.timestep, &indices.modality, HIDDEN);
    }
}

#[test]
fn one_row_with_nearly_all_positions() {
    let Some(device) = gpu() else { return };
    let layout: Layout = "t2va-15s".parse().unwrap();
    let indices = layout.indices(109_952, 3, 11);
    let hot = indices.timestep.iter().zip(&indices.modality).filter(|row| row == &(&0, &0)).count();
    assert_eq!(hot, 107_856);
    check_six_views(&device.stream().unwrap(), &indices.timestep, &indices.modality, HIDDEN);
}

/// Row 8 begins 2^31 elements behind row 0.
#[test]
fn a_table_view_with_a_row_stride_of_28_bits() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let (table, stride) = (source(1, HIDDEN), 1 << 28);
    let nine = HostTensor { rows: 9, bytes: table.bytes[..9 * HIDDEN as usize * 2].to_vec(), ..table };
    let mut buffer = bf16(&stream, 1, 8 * stride + HIDDEN);
    let packed = put(&stream, &nine);
    buffer.view_mut().strided(9, HIDDEN, [stride, 1], 0).unwrap().copy_from(&stream, packed.view()).unwrap();
    let rows: Vec<i64> = (0..1000).map(|position| 8 - position * 5 % 9).collect();
    let mut out = bf16(&stream, 1000, HIDDEN);
    let from = index(&stream, &rows);
    let inputs = [vec![buffer.view().strided(9, HIDDEN, [stride, 1], 0).unwrap()], vec![from.view()]];
    call(&stream, &kernel("row_gather", Direction::Forward), &inputs, vec![out.view_mut()]);
    check_rows(&stream, out.view(), &nine, &rows);
}

/// No scratch memory in proportion to S·H or R·H, and no byte of a row that nobody refers to but +0.0.
#[test]
fn rows_referenced_once_need_no_workspace() {
    let Some(device) = gpu() else { return };
    let problem = width::rows_referenced_once(776);
    let mut placement = problem.place(&device.stream().unwrap()).unwrap();
    placement.check(&problem.expected(), None, true);
    assert!(placement.workspace_bytes <= 4096, "{} bytes", placement.workspace_bytes);
}

/// Positions and rows on axes that are too short for them, and grids of millions of blocks.
#[test]
fn grids_are_long_enough() {
    let Some(device) = gpu() else { return };
    let positions = [65535, 65536, 65537].map(|positions| (9, positions, 8));
    let sizes = positions.into_iter().chain([(65538, 1, 8), (1_000_002, 3, 8), (9, (1 << 24) + 1, 1)]);
    let ways = [("row_gather", Direction::Forward), ("row_scatter_sum", Direction::Forward)];
    let problems = sizes.flat_map(|(rows, positions, hidden)| {
        ways.map(|(name, way)| {
            let kernel = direction(name, way, Accumulate::F32);
            Problem::new(&kernel, DType::Bf16, IntType::I64, &[rows], positions, hidden)
        })
    });
    in_parallel(problems.collect::<Vec<_>>(), |problem| {
        let expected = problem.expected();
        let mut placement = problem.place(&device.stream().unwrap()).unwrap();
        for planned in [true, false] {
            placement.check(&expected, None, planned);
        }
    });
}
