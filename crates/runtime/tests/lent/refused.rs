//! Addresses and sizes that no plan has, before anything is read or written.

use rowloom_runtime::{Device, Error, PlanSizes, RowPlan, Workspace, row_shape};

use crate::{POSITIONS, adaln, arrays, devices, indices, shape, state};

/// 100 positions, 10 of them without one of 4 rows, in blocks of 8.
const SIZES: PlanSizes = PlanSizes { positions: 100, rows: 4, block: 8, blocks: 13, partials: 12, rowless: 10 };

fn refusal(address: u64, sizes: PlanSizes) -> Option<String> {
    // SAFETY: nothing reads what it makes.
    unsafe { RowPlan::from_raw(&Device::cpu(), address, sizes) }.err().map(|error| error.to_string())
}

#[test]
fn sizes_that_contradict_each_other() {
    assert_eq!(refusal(0x1000, SIZES), None);
    let refused = |sizes: PlanSizes| refusal(0x1000, sizes).unwrap_or_else(|| panic!("{sizes:?} is no plan's"));
    assert_eq!(
        refused(PlanSizes { rowless: 101, ..SIZES }),
        "a plan of these sizes has 0 to 100 positions without a row, not 101: take all sizes from the plan that its \
         state was made for"
    );
    // 90 positions are 12 blocks at least, and 4 rows have no more than 15.
    for blocks in [11, 16] {
        assert!(refused(PlanSizes { blocks, ..SIZES }).contains("has 12 to 15 blocks, not"), "{blocks}");
    }
    // 9 blocks more than rows: of one row at least, of four at most.
    for partials in [0, 9, 14] {
        let found = refused(PlanSizes { partials, ..SIZES });
        assert!(found.contains("has 10 to 13 blocks of rows of several, not"), "{found}");
    }
    let found = refused(PlanSizes { positions: 3, rowless: 0, blocks: 4, partials: 1, ..SIZES });
    assert!(found.contains("has 0 to 0 blocks of rows of several, not 1"), "{found}");
    assert_eq!(refused(PlanSizes { positions: 0, ..SIZES }), "the plan has 0 positions; it must have at least 1");
    assert_eq!(refused(PlanSizes { rows: 0, ..SIZES }), "the plan has 0 rows; it must have at least 1");
    assert_eq!(refused(PlanSizes { block: 0, ..SIZES }), "the plan has 0 positions a block; it must have at least 1");
    assert!(refused(PlanSizes { positions: 1 << 32, ..SIZES }).contains("4294967296 positions; the limit is"));
    assert!(
        refused(PlanSizes { rows: u64::MAX, ..SIZES }).contains("the row count of the plan, is 18446744073709551615")
    );
    for (positions, rows, block) in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1 << 32, 1, 8), (1, 1 << 40, 8)] {
        RowPlan::state_elements(positions, rows, block).unwrap_err();
    }
}

/// What plans have, is accepted: every packing of a few positions.
#[test]
fn sizes_of_plans_are_accepted() {
    let stream = Device::cpu().stream().unwrap();
    let declaration = adaln();
    let mut shape = shape(&declaration);
    shape.block = 2;
    for number in 0..4_i64.pow(5) {
        let modality: Vec<i64> = (0..5).map(|at| number / 4_i64.pow(at) % 4 - 1).collect();
        let index = |index: &[i64]| rowloom_runtime::AnyTensor::from_slice(&stream, index, 5, 1).unwrap();
        let (timestep, modality) = (index(&[0; 5]), index(&modality));
        let plan = RowPlan::build(&stream, &shape, &[timestep.view(), modality.view()]).unwrap();
        assert_eq!(refusal(0x1000, plan.sizes()), None, "{:?}", plan.sizes());
    }
}

#[test]
fn addresses_of_no_plan() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (shape, indices) = (shape(&adaln()), indices(&stream));
        let indices = indices.each_ref().map(|index| index.view());
        let (memory, address) = state(&stream, 2 * POSITIONS as u64);
        let plan = RowPlan::build(&stream, &shape, &indices).unwrap();
        for (address, null) in [(0, true), (address + 4, false), (address + 8, false)] {
            // SAFETY: refused before anything is read or written.
            let errors = unsafe {
                [
                    RowPlan::from_raw(&device, address, plan.sizes()).unwrap_err(),
                    RowPlan::build_at(&stream, &shape, &indices, address).unwrap_err(),
                    plan.repeat_at(&stream, 2, address).unwrap_err(),
                ]
            };
            for error in errors {
                let expected = if null {
                    matches!(error, Error::Address { .. })
                } else {
                    matches!(error, Error::Misaligned { of: 16, .. })
                };
                assert!(expected, "{error}");
            }
        }
        if device != Device::cpu() {
            for address in [0, address + 16] {
                // SAFETY: refused before anything is done with it.
                let error = unsafe { Workspace::from_raw(&stream, address, 64) }.err().expect("it is no workspace's");
                assert!(matches!(error, Error::Misaligned { of: 256, .. }), "{error}");
            }
        }
        // SAFETY: it is empty.
        let empty = unsafe { Workspace::from_raw(&stream, 0, 0) }.unwrap();
        assert_eq!(empty.bytes(), 0);

        // A bad index leaves memory and device usable.
        let bad: Vec<i64> = (0..POSITIONS as i64).map(|at| if at == 7 { 3 } else { 0 }).collect();
        let bad = rowloom_runtime::AnyTensor::from_slice(&stream, &bad, POSITIONS as u64, 1).unwrap();
        // SAFETY: the memory outlives the plans, and nothing else writes to it.
        let error = unsafe { RowPlan::build_at(&stream, &shape, &[bad.view(), indices[1]], address) }.unwrap_err();
        assert_eq!(error.to_string(), "timestep[7] is 3, but it must be in 0..3", "the declared name");
        // SAFETY: as above.
        let built = unsafe { RowPlan::build_at(&stream, &shape, &indices, address) }.unwrap();
        assert_eq!(arrays(&stream, &built), arrays(&stream, &plan));
        // SAFETY: refused before anything is written.
        let error = unsafe { plan.repeat_at(&stream, 0, address) }.unwrap_err();
        assert!(matches!(error, Error::Zero { .. }), "{error}");
        drop(built);
        drop(memory);
    }
}

#[test]
fn row_shapes_of_a_kernel() {
    let declaration = adaln();
    let kernel = declaration.forward();
    let shape = shape(&declaration);
    let names: Vec<&str> = shape.terms.iter().map(|term| &*term.name).collect();
    assert_eq!(names, ["timestep", "modality"]);
    assert_eq!(shape.terms.iter().map(|term| (term.factor, term.bound)).collect::<Vec<_>>(), [(3, 3), (1, 3)]);
    assert_eq!((shape.terms[0].pad, shape.terms[1].pad), (None, Some(-1)));
    assert_eq!((shape.rows, shape.offset, shape.block), (9, 0, 8));
    let message = |expression, counts: &[(&str, u64)]| row_shape(kernel, expression, counts).unwrap_err().to_string();
    assert_eq!(message(1, &[("R", 9)]), "adaln has 1 row expressions, not 2");
    assert_eq!(message(0, &[]), "adaln: no tensor determines R; give its value");
    assert_eq!(message(0, &[("Q", 9)]), "adaln has no row count Q; it has R");
    assert!(message(0, &[("R", 10)]).contains("R must be a multiple of 3"), "{}", message(0, &[("R", 10)]));
}
