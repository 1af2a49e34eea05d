//! Planned, checked and deferred calls.

use rowloom::{Device, Error, RowPlan, RowShape, Tensor, Term, Workspace, bf16};
use rowloom_op_adaln::adaln_row_gather::{self, GradientsF32Mut, Inputs, Wants};
use rowloom_op_adaln::row_scatter_sum;

use super::{POSITIONS, Packed, poisoned, wrong};

const BAD: &str = "modality[59] is 3, but it must be in 0..3";
const LATER: &str =
    "an earlier deferred call of adaln_row_gather: modality[59] is not in 0..3; what it wrote is unspecified";

/// A bad call is an error that names the index, and the next call is right.
pub fn each_mode_recovers(device: &Device) {
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 0);
    let modality = wrong(&stream);
    let bad = Inputs { modality: modality.view(), ..packed.inputs() };
    let plan = packed.plan();
    let wants = Wants::TABLE;

    let error = adaln_row_gather::forward(&stream, &bad, None).map(drop).unwrap_err();
    assert_eq!(error.to_string(), BAD);
    packed.check_forward(&stream, &adaln_row_gather::forward(&stream, &packed.inputs(), None).unwrap().out);

    let error = adaln_row_gather::forward_deferred(&stream, &bad).unwrap().wait().map(drop).unwrap_err();
    assert_eq!(error.to_string(), BAD);
    packed.check_forward(&stream, &packed.forward_deferred().unwrap().wait().unwrap().out);

    let terms = [(packed.timestep.view().any(), 3, 3), (modality.view().any(), 1, 3)];
    let error = RowPlan::affine(&stream, &terms).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "index 1[59] is 3, but it must be in 0..3");
    packed.check_forward(&stream, &adaln_row_gather::forward(&stream, &packed.inputs(), &plan).unwrap().out);

    let error = adaln_row_gather::backward(&stream, &bad, &packed.cotangents(), None, wants).map(drop).unwrap_err();
    assert_eq!(error.to_string(), BAD);
    for plan in [None, Some(&plan)] {
        let gradients =
            adaln_row_gather::backward(&stream, &packed.inputs(), &packed.cotangents(), plan, wants).unwrap();
        packed.check_backward(&stream, &gradients.table.unwrap());
    }
}

/// A workspace has as many bytes as a call says, or the call says how many are missing.
pub fn workspaces_are_what_they_say(device: &Device) {
    let (stream, elsewhere) = (device.stream().unwrap(), device.stream().unwrap());
    let packed = Packed::new(&stream, 1);
    let plan = packed.plan();
    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());

    let mut workspace = packed.workspace(&stream, &plan);
    workspace.fill(0xFF).unwrap();
    packed.forward_into(&stream, Some(&plan), &mut out, &mut workspace).unwrap();
    packed.backward_into(&stream, Some(&plan), &mut gradient, &mut workspace).unwrap();
    packed.check_forward(&stream, &out);
    packed.check_backward(&stream, &gradient);

    if *device == Device::cpu() {
        assert_eq!(workspace.bytes(), 0, "the CPU needs none");
        return;
    }
    assert!(workspace.bytes() > 0, "rows of several blocks have partial sums");
    let error = packed.backward_into(&elsewhere, Some(&plan), &mut gradient, &mut workspace).unwrap_err();
    assert!(matches!(error, Error::Workspace), "{error}");
    // A planned gather needs none; a checked one has a word for its error.
    let mut empty = Workspace::new(&stream);
    packed.forward_into(&stream, Some(&plan), &mut out, &mut empty).unwrap();
    for error in [
        packed.forward_into(&stream, None, &mut out, &mut empty).unwrap_err(),
        packed.backward_into(&stream, Some(&plan), &mut gradient, &mut empty).unwrap_err(),
    ] {
        let Error::WorkspaceTooSmall { needed, found: 0, .. } = error else { panic!("{error}") };
        assert!(error.to_string().contains(&format!("needs a workspace of {needed} bytes")), "{error}");
        empty = Workspace::with_bytes(&stream, needed).unwrap();
    }
    packed.forward_into(&stream, None, &mut out, &mut empty).unwrap();
    packed.backward_into(&stream, Some(&plan), &mut gradient, &mut empty).unwrap();
    packed.check_forward(&stream, &out);
    packed.check_backward(&stream, &gradient);
}

/// A call into given tensors builds no plan; one of another block or of a kernel too many is refused.
pub fn sums_into_given_tensors_need_plans(device: &Device) {
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 2);
    let mut workspace = packed.workspace(&stream, &packed.plan());
    let error = packed.backward_into(&stream, None, &mut packed.gradient(), &mut workspace).unwrap_err();
    assert_eq!(
        error.to_string(),
        "adaln_row_gather sums by row and a call with a workspace allocates nothing, so it needs a plan of each of: \
         timestep * 3 + modality; build them with `RowPlan`"
    );

    let term = |name: &str, factor| Term { name: name.to_owned(), factor, bound: 3, pad: None };
    let terms = vec![term("timestep", 3), term("modality", 1)];
    let shape = RowShape { terms, offset: 0, rows: 9, block: 128 };
    let indices = [packed.timestep.view().any(), packed.modality.view().any()];
    let plan = RowPlan::build(&stream, &shape, &indices).unwrap();
    let wants = Wants::TABLE;
    let (inputs, cotangents) = (packed.inputs(), packed.cotangents());
    let error = adaln_row_gather::backward(&stream, &inputs, &cotangents, &plan, wants).map(drop).unwrap_err();
    let expected = "the plan of timestep * 3 + modality is for 128 positions a block, but the call has 256";
    assert_eq!(error.to_string(), expected);
    // As many as are declared, needed or not: a module's calls take no other number.
    let arguments = rowloom::__private::Arguments {
        inputs: &[
            Some(packed.table.view().any()),
            Some(packed.timestep.view().any()),
            Some(packed.modality.view().any()),
        ],
        cotangents: &packed.cotangents.each_ref().map(|tensor| tensor.view().any()),
        plans: Some(&[&plan, &plan]),
    };
    let declaration = adaln_row_gather::declaration();
    let surplus = rowloom::__private::backward(&stream, declaration, arguments, &[true, false, false], None);
    assert_eq!(surplus.map(drop).unwrap_err().to_string(), "adaln_row_gather has 1 plans, not 2");
    // A gather has no blocks.
    packed.check_forward(&stream, &adaln_row_gather::forward(&stream, &inputs, &plan).unwrap().out);

    let row = Tensor::from_slice(&stream, &[0i64; POSITIONS], POSITIONS as u64, 1).unwrap();
    let inputs = row_scatter_sum::Inputs { rows: packed.cotangents[0].view(), row: row.view() };
    let mut sums = poisoned(&stream, 1, super::HIDDEN);
    let outputs = row_scatter_sum::OutputsMut { out: sums.view_mut() };
    let error = row_scatter_sum::forward_into(&stream, &inputs, None, outputs, &mut workspace).unwrap_err();
    assert!(matches!(error, Error::NeedsPlan { .. }), "{error}");
}

/// A deferred call whose index is [`wrong`], for which nobody waits.
pub fn leave_a_bad_call(packed: &Packed, modality: &Tensor<i64>) {
    let bad = Inputs { modality: modality.view(), ..packed.inputs() };
    drop(adaln_row_gather::forward_deferred(&packed.stream, &bad).unwrap());
}

/// An error that nobody waits for is that of the next call, plan or synchronisation.
pub fn deferred_errors_surface_later(device: &Device) {
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 3);
    let modality = wrong(&stream);
    let leave = |unchecked: bool| {
        let bad = Inputs { modality: modality.view(), ..packed.inputs() };
        let pending = adaln_row_gather::forward_deferred(&stream, &bad).unwrap();
        if unchecked {
            let outputs = pending.unchecked();
            assert_eq!(outputs.out[5].rows(), POSITIONS as u64);
        } else {
            drop(pending);
        }
    };
    for unchecked in [false, true] {
        leave(unchecked);
        assert_eq!(stream.synchronize().unwrap_err().to_string(), LATER);
        stream.synchronize().unwrap();
    }

    type Call<'a> = &'a dyn Fn() -> Result<(), Error>;
    let calls: [Call<'_>; 4] = [
        &|| adaln_row_gather::forward(&stream, &packed.inputs(), None).map(drop),
        &|| packed.forward_deferred().map(drop),
        &|| {
            let (inputs, cotangents) = (packed.inputs(), packed.cotangents());
            adaln_row_gather::backward(&stream, &inputs, &cotangents, None, Wants::TABLE).map(drop)
        },
        &|| RowPlan::new(&stream, packed.timestep.view().any(), 3).map(drop),
    ];
    for call in calls {
        leave(true);
        // On a GPU the call comes after the check is done.
        packed.timestep.to_vec(&stream).unwrap();
        let error = call().unwrap_err();
        assert_eq!(error.to_string(), LATER);
        call().unwrap();
    }

    // While somebody can still wait for it, it is nobody else's.
    let bad = Inputs { modality: modality.view(), ..packed.inputs() };
    let pending = adaln_row_gather::forward_deferred(&stream, &bad).unwrap();
    let good = packed.forward_deferred().unwrap();
    packed.check_forward(&stream, &good.wait().unwrap().out);
    assert_eq!(pending.wait().map(drop).unwrap_err().to_string(), BAD);
    stream.synchronize().unwrap();
}

/// Gradients of a bf16 table in bf16, rounded once, and in f32, exact.
pub fn gradients_in_f32(device: &Device) {
    let stream = device.stream().unwrap();
    let table = Tensor::<bf16>::zeros(&stream, 3, 6).unwrap();
    let zero = Tensor::from_slice(&stream, &[0i64; 2], 2, 1).unwrap();
    let inputs = Inputs { table: table.view(), timestep: zero.view(), modality: zero.view() };
    // 257 has no bf16.
    let summands = Tensor::from_slice(&stream, &[256.0, 1.0].map(bf16::from_f32), 2, 1).unwrap();
    let cotangents = adaln_row_gather::Cotangents { out: [summands.view(); 6] };
    let expected = |sum: f32| [vec![sum; 6], vec![0.0; 12]].concat();

    let own = adaln_row_gather::backward(&stream, &inputs, &cotangents, None, Wants::TABLE).unwrap();
    let own: Vec<f32> = own.table.unwrap().to_vec(&stream).unwrap().into_iter().map(bf16::to_f32).collect();
    assert_eq!(own, expected(256.0));
    let wide = adaln_row_gather::backward_f32(&stream, &inputs, &cotangents, None, Wants::TABLE).unwrap();
    assert_eq!(wide.table.unwrap().to_vec(&stream).unwrap(), expected(257.0));

    let terms = [(zero.view().any(), 3, 1), (zero.view().any(), 1, 3)];
    let plan = RowPlan::affine(&stream, &terms).unwrap();
    let mut wide = poisoned(&stream, 3, 6);
    let gradients = GradientsF32Mut { table: Some(wide.view_mut()) };
    let bytes = adaln_row_gather::backward_workspace_bytes(&stream, &inputs, &cotangents, &plan, gradients).unwrap();
    let mut workspace = Workspace::with_bytes(&stream, bytes).unwrap();
    let gradients = GradientsF32Mut { table: Some(wide.view_mut()) };
    adaln_row_gather::backward_into(&stream, &inputs, &cotangents, &plan, gradients, &mut workspace).unwrap();
    assert_eq!(wide.to_vec(&stream).unwrap(), expected(257.0));
}
