//! Plans whose state is a framework's.

use rowloom_codegen::cuda::PlanArray;
use rowloom_runtime::{Device, RowPlan};

use crate::{POSITIONS, adaln, arrays, devices, indices, shape, state};

#[test]
fn plans_in_given_memory_hold_what_those_of_our_own_hold() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (shape, indices) = (shape(&adaln()), indices(&stream));
        let indices = indices.each_ref().map(|index| index.view());
        let owned = RowPlan::build(&stream, &shape, &indices).unwrap();
        let (of_one, address) = state(&stream, POSITIONS as u64);
        // SAFETY: the state holds a plan of these sizes, outlives it, and nothing else writes to it.
        let built = unsafe { RowPlan::build_at(&stream, &shape, &indices, address) }.unwrap();
        assert_eq!(built.array(PlanArray::Rows).address(), address, "it lies where it was put");
        assert_eq!((built.sizes(), arrays(&stream, &built)), (owned.sizes(), arrays(&stream, &owned)));
        assert!(owned.partials() > 0 && owned.rowless() > 0, "rows of several blocks, and positions without one");

        let (of_batch, address) = state(&stream, 4 * POSITIONS as u64);
        // SAFETY: as above.
        let repeated = unsafe { built.repeat_at(&stream, 4, address) }.unwrap();
        let expected = owned.repeat(&stream, 4).unwrap();
        assert_eq!((repeated.sizes(), arrays(&stream, &repeated)), (expected.sizes(), arrays(&stream, &expected)));

        // A plan is its state and its sizes: dropped, it leaves both.
        let sizes = repeated.sizes();
        drop((built, repeated));
        // SAFETY: as above; the state was made with these sizes.
        let again = unsafe { RowPlan::from_raw(&device, address, sizes) }.unwrap();
        assert_eq!((again.sizes(), arrays(&stream, &again)), (expected.sizes(), arrays(&stream, &expected)));
        assert_eq!((again.device(), again.bytes()), (device, expected.bytes()));
        drop(again);
        drop((of_one, of_batch));
    }
}

/// The arrays lie one after the other, each at a multiple of 16 bytes, and the state ends with the last.
#[test]
fn the_state_is_as_documented() {
    let stream = Device::cpu().stream().unwrap();
    let (shape, indices) = (shape(&adaln()), indices(&stream));
    let indices = indices.each_ref().map(|index| index.view());
    let plan = RowPlan::build(&stream, &shape, &indices).unwrap();
    let begins = PlanArray::ALL.map(|array| (plan.array(array).address() - plan.array(PlanArray::Rows).address()) / 4);
    // 300 positions twice, 9 + 1 rows three times, then at most 300 / 8 + 9 blocks.
    assert_eq!(begins, [0, 300, 600, 612, 624, 636]);
    assert_eq!(RowPlan::state_elements(300, 9, 8).unwrap(), 636 + 46);
    assert_eq!(plan.bytes(), 4 * (636 + 46));
}
