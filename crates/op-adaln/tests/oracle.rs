//! The hand-written oracles against what rowloom derives: its results on the
//! CPU, and its own f64 oracle.

use half::bf16;
use rowloom::codegen::{DType, Wants};
use rowloom::oracle::{self, Exact};
use rowloom::{AnyView, Device, Tensor};
use rowloom_op_adaln::random::{Normals, tensor};
use rowloom_op_adaln::{Layout, adaln_row_gather, oracle as by_hand};

const ROWS: usize = 9;
const HIDDEN: usize = 13;
const CHUNKS: usize = by_hand::CHUNKS;

fn numbers(stream: u64, rows: usize, columns: usize) -> Vec<bf16> {
    let mut normals = Normals::new(5, tensor(stream), 0, columns);
    let mut numbers = vec![bf16::ZERO; rows * columns];
    for row in numbers.chunks_exact_mut(columns) {
        normals.row(|column, number| row[column] = bf16::from_f32(number));
    }
    numbers
}

/// Gradients of which column 0 has sums that one f64 cannot hold.
fn cancelling(stream: u64, rows: usize) -> Vec<bf16> {
    let mut numbers = numbers(stream, rows, HIDDEN);
    for (position, row) in numbers.chunks_exact_mut(HIDDEN).enumerate() {
        row[0] = match position % 3 {
            0 => bf16::from_f32(2f32.powi(40)),
            1 => bf16::from_f32(2f32.powi(-40)),
            _ => bf16::from_f32(-(2f32.powi(39))),
        };
    }
    numbers
}

#[test]
fn forward_is_the_same_bytes_in_every_layout() {
    let stream = Device::cpu().stream().expect("a CPU");
    let table = numbers(0, ROWS, CHUNKS * HIDDEN);
    let width = (CHUNKS * HIDDEN) as u64;
    let placed = Tensor::from_slice(&stream, &table, ROWS as u64, width).expect("a tensor");
    for layout in ["interleaved", "block", "t2va-15s", "ref2va:5/8"] {
        for positions in [1, 2, 257, 832] {
            let layout: Layout = layout.parse().expect("a layout");
            let indices = layout.indices(positions, ROWS as u64 / 3, 11);
            let index = |values| Tensor::from_slice(&stream, values, positions, 1).expect("one");
            let (timestep, modality) = (index(&indices.timestep), index(&indices.modality));
            let inputs =
                adaln_row_gather::Inputs { table: placed.view(), timestep: timestep.view(), modality: modality.view() };
            let outputs = adaln_row_gather::forward(&stream, &inputs, None).expect("a forward");
            let expected = by_hand::forward(&table, HIDDEN, &indices);
            for (output, expected) in outputs.out.iter().zip(&expected) {
                let output = output.to_vec(&stream).expect("read");
                assert_eq!(bits(&output), bits(expected), "{layout}, S = {positions}");
            }
        }
    }
}

fn bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn gradient_is_what_the_derived_oracle_says() {
    for (positions, layout) in [(1, "interleaved"), (257, "interleaved"), (832, "t2va-4s")] {
        let layout: Layout = layout.parse().expect("a layout");
        let indices = layout.indices(positions, ROWS as u64 / 3, 11);
        let d_out: [Vec<bf16>; CHUNKS] = std::array::from_fn(|chunk| cancelling(chunk as u64, positions as usize));
        let wide = d_out.each_ref().map(|values| values.iter().copied().map(f64::from).collect());
        let expected = by_hand::table_gradient(&wide, ROWS, HIDDEN, &indices);

        let declaration = adaln_row_gather::declaration();
        let backward = declaration.backward(&Wants::all(declaration.forward()));
        let index = |values| AnyView::from_slice(values, positions, 1).expect("a view");
        let inputs: Vec<Vec<AnyView<'_>>> = vec![
            vec![index(&indices.timestep)],
            vec![index(&indices.modality)],
            d_out.iter().map(|values| AnyView::from_slice(values, positions, HIDDEN as u64).expect("a view")).collect(),
        ];
        let counts = [("R", ROWS as u64)];
        for chunk in 0..CHUNKS {
            let exact = oracle::exact(&backward, &inputs, &counts, 0, chunk, 0..HIDDEN as u64);
            for (at, exact) in exact.expect("an oracle").into_iter().enumerate() {
                let (row, column) = (at / HIDDEN, at % HIDDEN);
                let (hi, lo) = expected[(row * CHUNKS + chunk) * HIDDEN + column];
                assert_eq!(exact, Exact { hi, lo }, "row {row}, chunk {chunk}, column {column}");
            }
        }
    }
}

#[test]
fn some_of_those_sums_need_more_than_one_f64() {
    let indices = Layout::INTERLEAVED.indices(257, 3, 11);
    let wide =
        std::array::from_fn(|chunk| cancelling(chunk as u64, 257).into_iter().map(f64::from).collect::<Vec<f64>>());
    let sums = by_hand::table_gradient(&wide, ROWS, HIDDEN, &indices);
    assert!(sums.iter().any(|(_, low)| *low != 0.0));
}

#[test]
fn rounding_once_is_not_rounding_twice() {
    // 1 + 2^-8 is halfway between two bf16; what follows decides.
    let halfway = 1.0 + 2f64.powi(-8);
    let bits = |hi, lo| oracle::round_once(Exact { hi, lo }, DType::Bf16);
    assert_eq!(bits(halfway, 0.0), 0x3f80);
    assert_eq!(bits(halfway, 2f64.powi(-80)), 0x3f81);
    assert_eq!(bits(halfway, -(2f64.powi(-80))), 0x3f80);
    assert_eq!(bits(halfway + 2f64.powi(-40), 0.0), 0x3f81);
}
