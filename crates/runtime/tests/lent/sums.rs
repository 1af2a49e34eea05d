//! Calls by lent plans, with lent workspaces, and without the inputs that a backward does not read.

use rowloom_runtime::generated::{
    Arguments, backward, backward_into, backward_workspace_bytes, forward_deferred_into, forward_into,
};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Device, ElementType, Error, RowPlan, Stream, Workspace};

use crate::{POSITIONS, adaln, devices, indices, memory, shape, state};

const HIDDEN: u64 = 5;

/// Whole numbers, row after row.
fn numbers(stream: &Stream, rows: u64, columns: u64, seed: u64) -> AnyTensor {
    let numbers = (0..rows * columns).map(|at| half::bf16::from_f32(((at * 7 + seed) % 61) as f32 - 30.0));
    AnyTensor::from_slice(stream, &numbers.collect::<Vec<_>>(), rows, columns).unwrap()
}

fn poisoned(stream: &Stream, rows: u64, columns: u64) -> AnyTensor {
    let mut tensor =
        AnyTensor::uninit(stream, ElementType::Float(rowloom_codegen::DType::Bf16), rows, columns).unwrap();
    tensor.view_mut().fill(stream, 0xFF).unwrap();
    tensor
}

fn bits(stream: &Stream, tensors: &[AnyTensor]) -> Vec<Vec<u16>> {
    let bits = |tensor: &AnyTensor| tensor.to_vec(stream).unwrap().into_iter().map(half::bf16::to_bits).collect();
    tensors.iter().map(bits).collect()
}

fn views(tensors: &mut [AnyTensor]) -> Vec<AnyViewMut<'_>> {
    tensors.iter_mut().map(AnyTensor::view_mut).collect()
}

#[test]
fn calls_by_a_lent_plan_give_the_same_bytes() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (declaration, indices) = (adaln(), indices(&stream));
        let indices = indices.each_ref().map(|index| index.view());
        let table = numbers(&stream, 9, 2 * HIDDEN, 1);
        let cotangents = [2, 3].map(|seed| numbers(&stream, POSITIONS as u64, HIDDEN, seed));
        let cotangents = cotangents.each_ref().map(AnyTensor::view);
        let (memory_of_plan, address) = state(&stream, POSITIONS as u64);
        // SAFETY: the state outlives the plan, and nothing else writes to it.
        let built = unsafe { RowPlan::build_at(&stream, &shape(&declaration), &indices, address) }.unwrap();
        let sizes = built.sizes();
        drop(built);
        // SAFETY: as above.
        let lent = unsafe { RowPlan::from_raw(&device, address, sizes) }.unwrap();
        let owned = RowPlan::build(&stream, &shape(&declaration), &indices).unwrap();

        let inputs = [table.view(), indices[0], indices[1]];
        let forward = |plan: Option<&RowPlan>, deferred: bool| {
            let mut outputs = [(); 2].map(|()| poisoned(&stream, POSITIONS as u64, HIDDEN));
            let plans = plan.map(|plan| [plan]);
            let plans = plans.as_ref().map(|plans| &plans[..]);
            if deferred {
                let pending = forward_deferred_into(&stream, &declaration, &inputs, &mut views(&mut outputs)).unwrap();
                pending.unchecked();
                stream.synchronize().unwrap();
            } else {
                forward_into(&stream, &declaration, &inputs, plans, &mut views(&mut outputs), None).unwrap();
            }
            bits(&stream, &outputs)
        };
        let expected = forward(Some(&owned), false);
        assert_eq!(expected, forward(Some(&lent), false));
        assert_eq!(expected, forward(None, false));
        assert_eq!(expected, forward(None, true));

        let all = inputs.map(Some);
        let gradient = |plan: Option<&RowPlan>, inputs: &[Option<AnyView<'_>>], workspace: Option<&mut Workspace>| {
            let mut gradient = [poisoned(&stream, 9, 2 * HIDDEN)];
            let plans = plan.map(|plan| [plan]);
            let plans = plans.as_ref().map(|plans| &plans[..]);
            let arguments = Arguments { inputs, cotangents: &cotangents, plans };
            let into = [Some(gradient[0].view_mut()), None, None];
            backward_into(&stream, &declaration, arguments, into, workspace).map(|()| bits(&stream, &gradient))
        };
        let expected = gradient(Some(&owned), &all, None).unwrap();
        assert_eq!(expected, gradient(Some(&lent), &all, None).unwrap());
        assert_eq!(expected, gradient(None, &all, None).unwrap(), "it builds plans");

        // The table tells nothing that its gradient does not.
        assert_eq!(declaration.reads(&[true, false, false]).unwrap(), [false, true, true]);
        assert_eq!(declaration.reads(&[false; 3]).unwrap(), [false; 3]);
        let without = [None, Some(indices[0]), Some(indices[1])];
        assert_eq!(expected, gradient(Some(&lent), &without, None).unwrap());
        assert_eq!(expected, gradient(None, &without, None).unwrap());

        // The very bytes that it asks for, somebody else's, full of something.
        let mut unused = poisoned(&stream, 9, 2 * HIDDEN);
        let plans: &[&RowPlan] = &[&lent];
        let arguments = Arguments { inputs: &without, cotangents: &cotangents, plans: Some(plans) };
        let into = [Some(unused.view_mut()), None, None];
        let bytes = backward_workspace_bytes(&stream, &declaration, arguments, into).unwrap();
        assert_eq!(bytes == 0, device == Device::cpu());
        let mut scratch = memory(&stream, bytes.div_ceil(4).max(64));
        let address = scratch.view_mut().as_view().address();
        // SAFETY: the memory outlives the calls, and nothing else is done with it.
        let mut workspace = unsafe { Workspace::from_raw(&stream, address, bytes) }.unwrap();
        assert_eq!(workspace.bytes(), bytes);
        assert_eq!(expected, gradient(Some(&lent), &without, Some(&mut workspace)).unwrap());
        let error = gradient(None, &without, Some(&mut workspace)).unwrap_err();
        assert!(matches!(error, Error::NeedsPlan { .. }), "{error}");
        if bytes > 0 {
            // SAFETY: as above.
            let mut small = unsafe { Workspace::from_raw(&stream, address, bytes - 1) }.unwrap();
            let error = gradient(Some(&lent), &without, Some(&mut small)).unwrap_err();
            assert!(matches!(error, Error::WorkspaceTooSmall { .. }), "{error}");
        }
        stream.synchronize().unwrap();
        drop((lent, workspace));
        drop((memory_of_plan, scratch));
    }
}

#[test]
fn absent_inputs_are_named_and_sizes_still_agree() {
    for device in [Device::cpu(), Device::emulated(3).unwrap()] {
        let stream = device.stream().unwrap();
        let (declaration, indices) = (adaln(), indices(&stream));
        let indices = indices.each_ref().map(|index| index.view());
        let cotangents = [2, 3].map(|seed| numbers(&stream, POSITIONS as u64, HIDDEN, seed));
        let cotangents = cotangents.each_ref().map(AnyTensor::view);
        let table = numbers(&stream, 9, 2 * HIDDEN, 1);
        let refused = |inputs: &[Option<AnyView<'_>>], cotangents: &[AnyView<'_>], (rows, columns): (u64, u64)| {
            let mut gradient = poisoned(&stream, rows, columns);
            let into = [Some(gradient.view_mut()), None, None];
            let arguments = Arguments { inputs, cotangents, plans: None };
            backward_into(&stream, &declaration, arguments, into, None).unwrap_err().to_string()
        };
        let fits = (9, 2 * HIDDEN);
        assert_eq!(
            refused(&[None, Some(indices[0]), None], &cotangents, fits),
            "the backward of adaln reads modality, which is not there for these gradients: give it"
        );
        let without = [None, Some(indices[0]), Some(indices[1])];
        let columns = refused(&without, &cotangents, (9, 2 * HIDDEN + 2));
        assert!(columns.starts_with("d_table has 12 columns, but must have 10"), "{columns}");
        let rows = refused(&[Some(table.view()), without[1], without[2]], &cotangents, (12, 2 * HIDDEN));
        assert_eq!(rows, "table has 9 rows, but must have 12: that is the shape of its gradient d_table");
        assert_eq!(refused(&without[..2], &cotangents, fits), "adaln has 3 inputs, not 2");
        assert_eq!(refused(&without, &cotangents[..1], fits), "adaln has 2 cotangents, not 1");

        // Where no gradient says how many rows there are, the table must.
        let arguments = Arguments { inputs: &without, cotangents: &cotangents, plans: None };
        let wanted = [true, false, false];
        let Err(error) = backward(&stream, &declaration, arguments, &wanted, None) else { panic!("it knows no R") };
        assert!(matches!(error, Error::Undetermined { .. }), "{error}");
        let error = declaration.reads(&[false, true, false]).unwrap_err().to_string();
        assert_eq!(error, "adaln has no gradient of timestep, which is an index: ask for those of tables and rows");
        assert!(matches!(declaration.reads(&[true]), Err(Error::Arguments { .. })));
    }
}
