//! Indices fail closed: each against its own bound, the smallest position first.

use rowloom_codegen::Accumulate;
use rowloom_runtime::{Declaration, Error, RowPlan, RowShape, Term};

use super::kernels::*;

type Bad = (String, u64, i64, u64, bool);

fn bad(result: Result<impl Sized, Error>) -> Bad {
    match result {
        Err(Error::Index { argument, position, value, bound, help, .. }) => {
            (argument, position, value, bound, help.is_some())
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the index was accepted"),
    }
}

/// Forward, and backward, of T timesteps and H = 2; both must agree.
fn refused(timestep: &[i64], modality: &[i64], timesteps: u64) -> Bad {
    let (stream, declared) = (cpu(), adaln(Accumulate::F32));
    let table = vec![1.0_f32; timesteps as usize * 3 * 12];
    let inputs = [vec![matrix(&table, 12)], vec![column(timestep)], vec![column(modality)]];
    let forward = bad(call(&stream, declared.forward(), &inputs, &[], None, None));
    let d_out = vec![1.0_f32; timestep.len() * 2];
    let inputs = [vec![column(timestep)], vec![column(modality)], vec![matrix(&d_out, 2); 6]];
    let backward = bad(call(&stream, &all(&declared), &inputs, &[("R", timesteps * 3)], None, None));
    assert_eq!(forward, backward);
    forward
}

#[test]
fn past_the_bound() {
    assert_eq!(refused(&[1], &[0], 1), ("timestep".into(), 0, 1, 1, false));
    assert_eq!(refused(&[0, 3], &[0, 0], 3), ("timestep".into(), 1, 3, 3, false));
}

#[test]
fn a_valid_row_of_a_wrong_pair() {
    assert_eq!(refused(&[0], &[3], 2), ("modality".into(), 0, 3, 3, false));
}

#[test]
fn negative_and_wrapping_values() {
    assert_eq!(refused(&[-1], &[0], 2), ("timestep".into(), 0, -1, 2, true));
    for value in [i64::MIN, i64::MAX, i64::from(i32::MIN), (i64::MAX - 2) / 3 * 2 + 2, 1 << 32] {
        assert_eq!(refused(&[0, value], &[0, 0], 2), ("timestep".into(), 1, value, 2, false));
    }
}

#[test]
fn the_smallest_position_then_the_first_declared() {
    assert_eq!(refused(&[0, 9, 9], &[9, 9, 0], 2).0, "modality");
    assert_eq!(refused(&[0, 9, 9], &[0, 9, 0], 2), ("timestep".into(), 1, 9, 2, false));
    let mut timestep = vec![0_i64; 100_000];
    (timestep[99_999], timestep[40_000]) = (7, 8);
    assert_eq!(refused(&timestep, &vec![0; 100_000], 2), ("timestep".into(), 40_000, 8, 2, false));
}

#[test]
fn across_row_expressions_too() {
    let declared = Declaration::from_ir(TWO_ROWS).unwrap();
    let table = [1.0_f32; 4];
    let stream = cpu();
    let try_it = |first: &[i32], second: &[u8]| {
        let inputs = [vec![matrix(&table, 1)], vec![column(first)], vec![column(second)]];
        bad(call(&stream, declared.forward(), &inputs, &[], None, None))
    };
    assert_eq!(try_it(&[0, 0, 4], &[0, 4, 0]), ("second".into(), 1, 4, 4, false));
    assert_eq!(try_it(&[0, 4, 0], &[0, 255, 0]), ("first".into(), 1, 4, 4, false));
    assert_eq!(try_it(&[i32::MIN, 0, 0], &[0, 0, 0]), ("first".into(), 0, i32::MIN.into(), 4, false));
}

#[test]
fn a_tail_of_minus_one_names_the_opt_in() {
    let mut modality = vec![0_i64; 64];
    modality[59..].fill(-1);
    assert_eq!(refused(&vec![0; 64], &modality, 2), ("modality".into(), 59, -1, 3, true));
    let table = [1.0_f32; 18];
    let timestep = [0_i64; 64];
    let stream = cpu();
    let inputs = [vec![matrix(&table, 6)], vec![column(&timestep)], vec![column(&modality)]];
    let error = call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "modality[59] is -1, but it must be in 0..3; \
         declare the index as `Index<_, _, { pad = -1 }>` if -1 marks positions that have no row"
    );
    // Only exactly that value is the pad, which the sentence gives.
    modality[63] = -2;
    let inputs = [vec![matrix(&table, 6)], vec![column(&timestep)], vec![column(&modality)]];
    let error = call(&stream, adaln_padded().forward(), &inputs, &[], None, None).unwrap_err().to_string();
    assert_eq!(error, "modality[63] is -2, but it must be in 0..3, or -1 for no row");
    let term = Term { name: "modality".to_owned(), factor: 1, bound: 3, pad: Some(-1) };
    let shape = RowShape { terms: vec![term], offset: 0, rows: 3, block: 256 };
    let error = RowPlan::build(&stream, &shape, &[column(&modality)]).unwrap_err().to_string();
    assert_eq!(error, "modality[63] is -2, but it must be in 0..3, or -1 for no row");
}

#[test]
fn a_good_call_after_a_bad_one() {
    let stream = cpu();
    let table: Vec<f32> = (0..18).map(|at| at as f32).collect();
    let declared = adaln(Accumulate::F32);
    let (good, bad_index) = ([0_i64], [1_i64]);
    let inputs = [vec![matrix(&table, 6)], vec![column(&bad_index)], vec![column(&good)]];
    assert_eq!(bad(call(&stream, declared.forward(), &inputs, &[], None, None)).0, "timestep");
    let inputs = [vec![matrix(&table, 6)], vec![column(&good)], vec![column(&good)]];
    let outputs = call(&stream, declared.forward(), &inputs, &[], None, None).unwrap();
    assert_eq!(output::<f32>(&stream, &outputs[0]).concat(), bits(&table[..6]));
}

#[test]
fn a_plan_refuses_what_a_call_refuses() {
    let stream = cpu();
    let (timestep, modality) = ([0_i64, 0], [0_i64, 3]);
    let plan = RowPlan::affine(&stream, &[(column(&timestep), 3, 2), (column(&modality), 1, 3)]);
    assert_eq!(bad(plan), ("index 1".into(), 1, 3, 3, false));
    assert_eq!(bad(RowPlan::new(&stream, column(&[0_u8, 4]), 4)), ("row".into(), 1, 4, 4, false));
}

#[test]
fn a_one_row_table_with_another_index() {
    let declared = Declaration::from_ir(TWO_ROWS).unwrap();
    let table = [1.0_f32, 2.0];
    let inputs = [vec![matrix(&table, 2)], vec![column(&[1_i32])], vec![column(&[0_u8])]];
    let refused = bad(call(&cpu(), declared.forward(), &inputs, &[], None, None));
    assert_eq!(refused, ("first".into(), 0, 1, 1, false));
}
