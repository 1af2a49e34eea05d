//! Plans: their arrays, and calls that use them.

use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::{Accumulate, Verified};
use rowloom_runtime::{AnyView, Error, RowPlan, RowShape, Stream, Term};

use super::kernels::*;
use super::reference::Random;

fn array(stream: &Stream, plan: &RowPlan, array: PlanArray) -> Vec<u32> {
    plan.array(array).to_vec(stream).unwrap()
}

#[test]
fn arrays_are_as_documented() {
    let stream = cpu();
    // Rows 2, -, 0, 2, 2, 0 of 4 in blocks of two.
    let index = [2_i32, -1, 0, 2, 2, 0];
    let term = Term { name: "token".into(), factor: 1, bound: 4, pad: Some(-1) };
    let shape = RowShape { terms: vec![term], offset: 0, rows: 4, block: 2 };
    let plan = RowPlan::build(&stream, &shape, &[column(&index)]).unwrap();
    assert_eq!(array(&stream, &plan, PlanArray::Rows), [2, PlanArray::NO_ROW, 0, 2, 2, 0]);
    assert_eq!(array(&stream, &plan, PlanArray::Order), [2, 5, 0, 3, 4, 1]);
    assert_eq!(array(&stream, &plan, PlanArray::SegmentStart), [0, 2, 2, 5, 5]);
    assert_eq!(array(&stream, &plan, PlanArray::BlockStart), [0, 1, 2, 4, 5]);
    assert_eq!(array(&stream, &plan, PlanArray::PartialStart), [0, 0, 0, 2, 2]);
    assert_eq!(array(&stream, &plan, PlanArray::BlockRow), [0, 1, 2, 2, 3]);
    assert_eq!((plan.positions(), plan.rows(), plan.blocks(), plan.partials()), (6, 4, 5, 2));
}

#[test]
fn random_plans_sort_stably() {
    let mut random = Random(9);
    let stream = cpu();
    for (positions, rows) in [(1, 1), (1000, 7), (20_000, 300), (10, 5000)] {
        let index: Vec<i64> = (0..positions).map(|_| random.below(rows) as i64).collect();
        let plan = RowPlan::new(&stream, column(&index), rows).unwrap();
        let mut expected: Vec<u32> = (0..positions as u32).collect();
        expected.sort_by_key(|&s| index[s as usize]);
        assert_eq!(array(&stream, &plan, PlanArray::Order), expected);
        assert_eq!(array(&stream, &plan, PlanArray::Rows), index.iter().map(|&row| row as u32).collect::<Vec<_>>());
    }
}

#[test]
fn a_planned_call_has_the_bytes_of_a_checked_one() {
    let mut random = Random(10);
    let stream = cpu();
    let timestep: Vec<i64> = (0..900).map(|_| random.below(3) as i64).collect();
    let modality: Vec<i64> = (0..900).map(|_| random.below(3) as i64).collect();
    let plan = RowPlan::affine(&stream, &[(column(&timestep), 3, 3), (column(&modality), 1, 3)]).unwrap();
    assert_eq!(plan.rows(), 9);
    let (table, d_out) = (random.values(9 * 6 * 4, |v| v), random.values(900 * 4, |v| v));
    let declared = adaln(Accumulate::F32);
    let forward = [vec![matrix(&table, 24)], vec![column(&timestep)], vec![column(&modality)]];
    let backward = [vec![column(&timestep)], vec![column(&modality)], vec![matrix(&d_out, 4); 6]];
    for (kernel, inputs) in [(declared.forward(), &forward), (&all(&declared), &backward)] {
        let counts: &[_] = if kernel.inputs.len() == 3 && kernel.inputs[0].is_index() { &[("R", 9)] } else { &[] };
        let checked = call(&stream, kernel, inputs, counts, None, None).unwrap();
        let planned = call(&stream, kernel, inputs, counts, None, Some(&[&plan])).unwrap();
        assert_eq!(output::<f32>(&stream, &checked[0]), output::<f32>(&stream, &planned[0]));
    }
}

#[test]
fn a_plan_for_something_else_is_refused() {
    let stream = cpu();
    let declared = adaln(Accumulate::F32);
    let index = [0_i64; 5];
    let (table, d_out) = ([0.0_f32; 18], [0.0_f32; 5]);
    let forward = [vec![matrix(&table, 6)], vec![column(&index)], vec![column(&index)]];
    let backward = [vec![column(&index)], vec![column(&index)], vec![matrix(&d_out, 1); 6]];
    let of = |positions: usize, rows, block| {
        let term = Term { name: "row".into(), factor: 1, bound: rows, pad: None };
        let shape = RowShape { terms: vec![term], offset: 0, rows, block };
        RowPlan::build(&stream, &shape, &[column(&vec![0_i64; positions])]).unwrap()
    };
    let sums = all(&declared);
    let refusal = |kernel: &Verified, inputs: &[Vec<AnyView<'_>>], plan: &RowPlan| match call(
        &stream,
        kernel,
        inputs,
        &[("R", 3)],
        None,
        Some(&[plan]),
    ) {
        Err(Error::Plan { rows_of, what, found, expected }) => {
            assert_eq!(rows_of, "timestep * 3 + modality");
            Some((what, found, expected))
        }
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    for (kernel, inputs) in [(declared.forward(), &forward), (&sums, &backward)] {
        assert_eq!(refusal(kernel, inputs, &of(4, 3, 256)), Some(("positions", 4, 5)));
        assert_eq!(refusal(kernel, inputs, &of(5, 6, 256)), Some(("rows", 6, 3)));
        assert_eq!(refusal(kernel, inputs, &of(5, 3, 256)), None);
    }
    assert_eq!(refusal(&sums, &backward, &of(5, 3, 128)), Some(("positions a block", 128, 256)));
    // A gather has no blocks.
    assert_eq!(refusal(declared.forward(), &forward, &of(5, 3, 128)), None);
    let none = call(&stream, declared.forward(), &forward, &[], None, Some(&[]));
    assert!(matches!(none, Err(Error::Arguments { what: "plans", expected: 1, found: 0, .. })));
}

#[test]
fn later_edits_of_the_indices_do_not_change_a_plan() {
    let stream = cpu();
    let mut index = [1_i64, 0];
    let plan = RowPlan::new(&stream, column(&index), 2).unwrap();
    index = [7, 7];
    assert_eq!(array(&stream, &plan, PlanArray::Rows), [1, 0]);
    assert_eq!(index, [7, 7]);
}

#[test]
fn impossible_plans() {
    let stream = cpu();
    let index = [0_i64];
    let term = |factor, bound| Term { name: "row".into(), factor, bound, pad: None };
    let build = |terms: Vec<Term>, offset, rows, block| {
        let indices = vec![column(&index); terms.len()];
        RowPlan::build(&stream, &RowShape { terms, offset, rows, block }, &indices).unwrap_err()
    };
    assert!(matches!(build(vec![term(1, 4)], 0, 3, 256), Error::RowNumber { largest: 3, rows: 3 }));
    assert!(matches!(build(vec![term(1, 3)], 1, 3, 256), Error::RowNumber { largest: 3, rows: 3 }));
    assert!(matches!(build(vec![term(u64::MAX, u64::MAX)], 0, 3, 256), Error::RowNumber { .. }));
    for rows in [u64::from(u32::MAX), u64::MAX] {
        let refused = build(vec![term(1, 3)], 0, rows, 256).to_string();
        assert_eq!(refused, format!("R, the row count of the plan, is {rows}; the limit is 4294967294"));
    }
    assert!(matches!(build(vec![term(1, 0)], 0, 3, 256), Error::Zero { .. }));
    assert!(matches!(build(vec![term(1, 3)], 0, 3, 0), Error::Zero { .. }));
    assert!(matches!(build(vec![], 0, 3, 256), Error::Arguments { .. }));
    let empty: [i64; 0] = [];
    assert!(matches!(RowPlan::new(&stream, column(&empty), 3).unwrap_err(), Error::Zero { axis: "positions", .. }));
    let floats = [0.0_f32];
    assert!(matches!(RowPlan::new(&stream, column(&floats), 3).unwrap_err(), Error::ElementType { .. }));
    let uneven = RowPlan::affine(&stream, &[(column(&[0_i64]), 3, 2), (column(&[0_i64, 0]), 1, 3)]);
    assert!(matches!(uneven.unwrap_err(), Error::Size { found: 2, expected: 1, .. }));
}

/// Says in a process that its address space has been limited.
#[cfg(target_os = "linux")]
const LIMITED: &str = "ROWLOOM_TEST_LIMITED";

/// Runs this test again where 4 GiB of addresses must do, in which no plan below fits.
#[cfg(target_os = "linux")]
#[test]
fn plans_that_memory_does_not_hold_are_errors() {
    use std::process::Command;

    if std::env::var_os(LIMITED).is_none() {
        let name = "plans::plans_that_memory_does_not_hold_are_errors";
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 4194304 && exec \"$0\" \"$1\" --exact"])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(LIMITED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
        return;
    }
    let stream = cpu();
    let out_of_memory =
        |plan: Result<RowPlan, Error>| assert!(matches!(plan, Err(Error::OutOfMemory { .. })), "{plan:?}");
    out_of_memory(RowPlan::new(&stream, column(&[0_i64]), 4_294_967_294));
    let one = RowPlan::new(&stream, column(&[0_i64]), 1).unwrap();
    out_of_memory(one.repeat(&stream, 4_000_000_000));
    let index = AnyView::from_slice(&[0_u8], 1, 1).unwrap().expanded(4_000_000_000).unwrap();
    out_of_memory(RowPlan::new(&stream, index, 1));
}
