//! Sizes and types that do not fit, each in the user's words.

use half::{bf16, f16};
use rowloom_codegen::Accumulate;
use rowloom_runtime::{AnyView, Error, RowPlan, RowShape, Term};

use super::kernels::*;

/// The message of a forward of the H3 op.
fn message(table: AnyView<'_>, timestep: AnyView<'_>, modality: AnyView<'_>) -> String {
    let inputs = [vec![table], vec![timestep], vec![modality]];
    let stream = cpu();
    call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap_err().to_string()
}

#[test]
fn zero_sizes() {
    let none: [f32; 0] = [];
    let no_index: [i64; 0] = [];
    let (table, index) = ([0.0_f32; 18], [0_i64]);
    let (table, index) = (matrix(&table, 6), column(&index));
    let empty = column(&no_index);
    assert_eq!(message(table, empty, empty), "timestep has 0 positions; it must have at least 1");
    let no_rows = AnyView::from_slice(&none, 0, 6).unwrap();
    assert_eq!(message(no_rows, index, index), "table has 0 rows; it must have at least 1");
    let no_columns = AnyView::from_slice(&none, 3, 0).unwrap();
    assert_eq!(message(no_columns, index, index), "table has 0 columns; it must have at least 1");
}

#[test]
fn sizes_that_contradict_each_other() {
    let table = [0.0_f32; 84];
    let (one, two) = ([0_i64], [0_i64; 2]);
    let (one, two) = (column(&one), column(&two));
    let unequal = "modality has 2 positions, but must have 1: S is 1 in timestep";
    assert_eq!(message(matrix(&table[..18], 6), one, two), unequal);
    let terms = [("timestep", 1), ("modality", 3)].map(|(name, bound)| Term {
        name: name.to_owned(),
        factor: 1,
        bound,
        pad: None,
    });
    let shape = RowShape { terms: terms.to_vec(), offset: 0, rows: 3, block: 256 };
    assert_eq!(RowPlan::build(&cpu(), &shape, &[one, two]).unwrap_err().to_string(), unequal);
    assert_eq!(
        message(matrix(&table[..21], 7), one, one),
        "table has 7 columns, which is no multiple of 6: it has 6 chunks of H columns"
    );
    assert_eq!(
        message(matrix(&table[..60], 6), one, one),
        "adaln_row_gather: timestep is in 0..R / 3, and R / 3 is no whole number for R = 10; R must be a multiple of 3, such as 12"
    );
    let wide = AnyView::from_slice(&[0_i64; 2], 1, 2).map(|view| message(matrix(&table[..18], 6), view, one)).unwrap();
    assert_eq!(wide, "timestep has 2 columns, but must have 1: an index is one number a position");
}

#[test]
fn types_that_contradict_each_other() {
    let table = [0.0_f32; 18];
    let (wide, narrow) = ([0_i64], [0_i32]);
    assert_eq!(
        message(matrix(&table, 6), column(&wide), column(&narrow)),
        "modality holds i32, but must hold i64: I is i64 in timestep"
    );
    assert_eq!(
        message(matrix(&table, 6), column(&table[..1]), column(&narrow)),
        "timestep holds f32, but must hold u8, i32 or i64"
    );
    assert_eq!(
        message(AnyView::from_slice(&[0_i64; 18], 3, 6).unwrap(), column(&wide), column(&wide)),
        "table holds i64, but must hold f32, f16 or bf16"
    );
    let (b, h, index) = ([bf16::ONE; 2], [f16::ONE; 2], [0_i64; 2]);
    let inputs = [vec![column(&index)], vec![column(&index)], [vec![matrix(&b, 1); 5], vec![matrix(&h, 1)]].concat()];
    let error = call(&cpu(), &all(&adaln(Accumulate::F32)), &inputs, &[("R", 3)], None, None).unwrap_err();
    assert_eq!(error.to_string(), "d_out[5] holds f16, but must hold bf16: T is bf16 in d_out[0]");
}

#[test]
fn row_counts_by_name() {
    let stream = cpu();
    let (y, token) = ([1.0_f32], [0_i64]);
    let inputs = [vec![matrix(&y, 1)], vec![column(&token)]];
    let declared = segments(Accumulate::F32);
    let message = |counts: &[(&str, u64)]| {
        call(&stream, declared.forward(), &inputs, counts, None, None).unwrap_err().to_string()
    };
    assert_eq!(message(&[]), "segments: no tensor determines R; give its value");
    assert_eq!(message(&[("N", 2)]), "segments has no row count N; it has R");
    assert_eq!(message(&[("R", 0)]), "R is 0; it must be at least 1");
    assert_eq!(message(&[("R", 1 << 40)]), "R has 1099511627776 rows; the limit is 4294967294");
}

#[test]
fn the_number_of_arguments() {
    let stream = cpu();
    let index = [0_i64];
    let few = call(&stream, adaln(Accumulate::F32).forward(), &[vec![column(&index)]], &[], None, None);
    assert_eq!(few.unwrap_err().to_string(), "adaln_row_gather has 3 inputs, not 1");
    let d_out = [1.0_f32];
    let inputs = [vec![column(&index)], vec![column(&index)], vec![matrix(&d_out, 1); 5]];
    let five = call(&stream, &all(&adaln(Accumulate::F32)), &inputs, &[("R", 3)], None, None).unwrap_err();
    assert_eq!(five.to_string(), "d_out has 5 tensors, but must have 6: it is declared so");
    assert!(matches!(five, Error::Size { .. }));
}

#[test]
fn many_narrow_rows_and_tables() {
    // Grids that would overflow a GPU's smaller axes; offsets of one column.
    for positions in [65_535_usize, 65_536, 65_537] {
        let token: Vec<i64> = (0..positions as i64).map(|s| s % 7).collect();
        let y = vec![1.0_f32; positions];
        let inputs = [vec![matrix(&y, 1)], vec![column(&token)]];
        let stream = cpu();
        let outputs =
            call(&stream, segments(Accumulate::F32).forward(), &inputs, &[("R", 65_538)], None, None).unwrap();
        let found = output::<f32>(&stream, &outputs[0]).concat();
        for (row, &bits) in found.iter().enumerate() {
            let count = if row < 7 { (positions - row).div_ceil(7) } else { 0 };
            assert_eq!(bits, (count as f32).to_bits(), "row {row}");
        }
    }
}
