//! Strides, offsets and chunks.

use half::bf16;
use rowloom_codegen::{Accumulate, Arch};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Call, ElementType, Error, run, spec};

use super::kernels::*;
use super::reference::Random;

#[test]
fn odd_strides_offsets_and_columns() {
    let mut random = Random(11);
    let (hidden, stride) = (5_u64, 31_u64);
    let memory: Vec<bf16> = random.values(1 + 3 * stride as usize, bf16::from_f32);
    let whole = AnyView::from_slice(&memory, 1, memory.len() as u64).unwrap();
    let table = whole.strided(3, 6 * hidden, [stride, 1], 1).unwrap();
    let (timestep, modality) = ([0_i64; 4], [2_i64, 0, 1, 2]);
    let stream = cpu();
    let inputs = [vec![table], vec![column(&timestep)], vec![column(&modality)]];
    let outputs = call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap();
    for (chunk, found) in output::<bf16>(&stream, &outputs[0]).into_iter().enumerate() {
        for (s, &row) in modality.iter().enumerate() {
            for h in 0..5 {
                let expected = memory[1 + row as usize * 31 + chunk * 5 + h].bits();
                assert_eq!(found[s * 5 + h], expected);
            }
        }
    }
}

#[test]
fn outputs_and_cotangents_may_be_strided() {
    let mut random = Random(12);
    let stream = cpu();
    let (timestep, modality) = ([0_i64; 3], [2_i64, 0, 2]);
    let d: Vec<f32> = random.values(3 * 7, |v| v);
    let d_out = AnyView::from_slice(&d, 3, 7).unwrap().columns(2..4).unwrap();
    let inputs = [vec![column(&timestep)], vec![column(&modality)], vec![d_out; 6]];
    let mut memory = vec![9.0_f32; 3 * 15];
    let view = AnyViewMut::from_slice(&mut memory, 3, 15).unwrap().columns(1..13).unwrap();
    let backward = all(&adaln(Accumulate::F32));
    run(
        &stream,
        &backward,
        Call { inputs: &inputs, outputs: &mut [vec![view]], plans: None, schedule: None, workspace: None },
    )
    .unwrap();
    for row in 0..3 {
        for column in 0..15 {
            let h = 2 + (column + 1) % 2;
            let expected = match (row, column) {
                (_, 0 | 13 | 14) => 9.0,
                (0, _) => d[7 + h],
                (1, _) => 0.0,
                _ => d[h] + d[14 + h],
            };
            assert_eq!(memory[row * 15 + column].to_bits(), expected.to_bits(), "({row}, {column})");
        }
    }
}

#[test]
fn an_expanded_cotangent_is_read_in_its_logical_order() {
    let stream = cpu();
    let token = [0_i64, 1, 0];
    let one = [1.5_f32, -2.0];
    let y = AnyView::from_slice(&one, 1, 2).unwrap().expanded(3).unwrap();
    let outputs =
        call(&stream, segments(Accumulate::F32).forward(), &[vec![y], vec![column(&token)]], &[("R", 2)], None, None);
    let found = output::<f32>(&stream, &outputs.unwrap()[0]).concat();
    assert_eq!(found, bits(&[3.0_f32, -4.0, 1.5, -2.0]));
}

#[test]
fn a_transposed_view_is_refused() {
    let values = [0.0_f32; 6];
    let transposed = AnyView::from_slice(&values, 2, 3).unwrap().strided(3, 2, [1, 3], 0);
    assert!(matches!(transposed, Err(Error::ColumnStride { found: 3, .. })));
    // The stride of an axis of size 1 says nothing.
    assert!(AnyView::from_slice(&values, 2, 3).unwrap().strided(6, 1, [1, 77], 0).is_ok());
}

#[test]
fn views_stay_inside() {
    let values = [0.0_f32; 6];
    let view = AnyView::from_slice(&values, 2, 3).unwrap();
    assert!(matches!(view.rows(1..3), Err(Error::Range { what: "rows", start: 1, end: 3, size: 2 })));
    assert!(matches!(view.columns(3..4), Err(Error::Range { what: "columns", .. })));
    assert!(matches!(view.strided(3, 1, [3, 1], 0), Err(Error::Range { what: "elements", .. })));
    assert!(matches!(view.strided(u64::MAX, 1, [u64::MAX, 1], 0), Err(Error::Range { .. })));
    assert!(view.expanded(9).is_err());
}

#[test]
fn overlapping_output_rows_are_refused() {
    let stream = cpu();
    let token = [0_i64, 1];
    let y = [1.0_f32, 2.0];
    let inputs = [vec![matrix(&y, 1)], vec![column(&token)]];
    let mut memory = [0.0_f32];
    let view = AnyViewMut::from_slice(&mut memory, 1, 1).unwrap().strided(2, 1, [0, 1], 0).unwrap();
    let declared = segments(Accumulate::F32);
    let call = Call { inputs: &inputs, outputs: &mut [vec![view]], plans: None, schedule: None, workspace: None };
    let refused = run(&stream, declared.forward(), call);
    assert!(matches!(refused, Err(Error::Overlap { argument, columns: 1, row_stride: 0 }) if argument == "out"));
}

#[test]
fn the_vector_width_follows_base_stride_and_chunk() {
    let stream = cpu();
    let ty = ElementType::Float(rowloom_codegen::DType::Bf16);
    let buffer = AnyTensor::zeros(&stream, ty, 1, 4096).unwrap();
    let index = [0_i64; 3];
    let width = |rows: u64, hidden: u64, stride: u64, offset: u64| {
        let table = buffer.view().strided(rows, 6 * hidden, [stride, 1], offset).unwrap();
        let inputs = [vec![table], vec![column(&index)], vec![column(&index)]];
        let outputs: Vec<AnyTensor> = (0..6).map(|_| AnyTensor::zeros(&stream, ty, 3, hidden).unwrap()).collect();
        let views = [outputs.iter().map(AnyTensor::view).collect()];
        let spec = spec(adaln(Accumulate::F32).forward(), &inputs, &views, true, Arch::SM_90).unwrap();
        spec.inputs[0].vector_bytes
    };
    assert_eq!(width(3, 8, 48, 0), 16);
    assert_eq!(width(3, 8, 48, 1), 2);
    assert_eq!(width(3, 8, 52, 0), 8);
    assert_eq!(width(3, 8, 49, 0), 2);
    assert_eq!(width(3, 4, 24, 0), 8);
    assert_eq!(width(3, 5, 48, 0), 2);
    assert_eq!(width(3, 8, 48, 8), 16);
}
