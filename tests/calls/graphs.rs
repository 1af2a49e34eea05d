//! Captured calls.

use rowloom::{Device, Error, Graph, RowPlan, Stream, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather;

use super::Packed;

/// Forward and backward, replayed with new values in the same tensors.
pub fn replays_see_new_data(device: &Device) {
    let stream = device.stream().unwrap();
    let mut packed = Packed::new(&stream, 4);
    let plan = packed.plan();
    let mut workspace = packed.workspace(&stream, &plan);
    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());
    let mut call = |packed: &Packed, out: &mut _, gradient: &mut _| {
        packed.forward_into(&stream, Some(&plan), out, &mut workspace)?;
        packed.backward_into(&stream, Some(&plan), gradient, &mut workspace)
    };
    call(&packed, &mut out, &mut gradient).unwrap();
    let graph = stream.capture(|| call(&packed, &mut out, &mut gradient)).unwrap();
    for seed in 5..8 {
        packed.refill(seed);
        out.iter_mut().for_each(|out| out.view_mut().any().fill(&stream, 0xFF).unwrap());
        gradient.view_mut().any().fill(&stream, 0xFF).unwrap();
        graph.replay(&stream).unwrap();
        packed.check_forward(&stream, &out);
        packed.check_backward(&stream, &gradient);
    }
    // On another stream it comes behind what this one has queued.
    let other = device.stream().unwrap();
    packed.refill(8);
    graph.replay(&other).unwrap();
    packed.check_forward(&stream, &out);
    packed.check_backward(&other, &gradient);
}

/// A graph keeps what it uses: plan, workspace and tensors may go.
pub fn graphs_keep_their_memory(device: &Device) {
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 9);
    let mut out = packed.outputs();
    let graph: Graph = {
        let plan = packed.plan();
        let mut workspace = packed.workspace(&stream, &plan);
        let mut gradient = packed.gradient();
        let mut call = |out: &mut _, gradient: &mut _| {
            packed.forward_into(&stream, Some(&plan), out, &mut workspace)?;
            packed.backward_into(&stream, Some(&plan), gradient, &mut workspace)
        };
        call(&mut out, &mut gradient).unwrap();
        stream.capture(|| call(&mut out, &mut gradient)).unwrap()
    };
    // Memory that was given back would be handed out again here.
    let others: Vec<_> = (0..8).map(|_| (packed.gradient(), packed.outputs())).collect();
    out.iter_mut().for_each(|out| out.view_mut().any().fill(&stream, 0xFF).unwrap());
    graph.replay(&stream).unwrap();
    packed.check_forward(&stream, &out);
    for (gradient, outputs) in &others {
        for tensor in outputs.iter().chain([gradient]) {
            assert!(tensor.to_vec(&stream).unwrap().iter().all(|value| value.is_nan()));
        }
    }
}

/// What a capture is given to do, and the outputs it may write.
type Body<'a> = &'a mut dyn FnMut(&mut [Tensor<f32>; 6]) -> Result<(), Error>;

/// All that allocates, waits, checks or compiles is an error before the stream is touched.
pub fn captures_refuse_what_they_cannot_hold(device: &Device) {
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let packed = Packed::new(&stream, 10);
    let plan = packed.plan();
    let mut workspace = packed.workspace(&stream, &plan);
    let mut out = packed.outputs();
    packed.forward_into(&stream, Some(&plan), &mut out, &mut workspace).unwrap();
    let inputs = packed.inputs();
    let pending = packed.forward_deferred().unwrap();

    let mut refused = |doing: &str, body: Body<'_>| {
        let error = stream.capture(|| body(&mut out)).map(drop).unwrap_err();
        let Error::Captured { doing: found } = &error else { panic!("{doing}: {error}") };
        assert!(found.contains(doing), "{doing}: {error}");
        // The stream runs as before, and what goes before the refusal was not run.
        out.iter_mut().for_each(|out| out.view_mut().any().fill(&stream, 0xFF).unwrap());
        let graph = stream.capture(|| packed.forward_into(&stream, Some(&plan), &mut out, &mut workspace)).unwrap();
        assert!(out[0].to_vec(&stream).unwrap()[0].is_nan(), "{doing}: captured, not run");
        graph.replay(&stream).unwrap();
        packed.check_forward(&stream, &out);
    };
    let checked = "checking the indices of adaln_row_gather";
    let mut checking = Workspace::with_bytes(&stream, 1 << 12).unwrap();
    packed.forward_into(&stream, None, &mut packed.outputs(), &mut checking).unwrap();
    refused(checked, &mut |out| packed.forward_into(&stream, None, out, &mut checking));
    refused("allocating", &mut |_| adaln_row_gather::forward(&stream, &inputs, None).map(drop));
    refused("allocating", &mut |_| packed.forward_deferred().map(drop));
    refused("allocating", &mut |_| Tensor::<f32>::zeros(&stream, 1, 1).map(drop));
    refused("allocating", &mut |_| Workspace::with_bytes(&stream, 1).map(drop));
    refused("building a plan", &mut |_| RowPlan::new(&stream, packed.timestep.view().any(), 3).map(drop));
    refused("waiting for the stream", &mut |_| stream.synchronize());
    refused("marking", &mut |_| stream.record().map(drop));
    refused("copying from", &mut |out| out[0].to_vec(&stream).map(drop));
    refused("another capture", &mut |_| stream.capture(|| Ok(())).map(drop));
    let mut pending = Some(pending);
    refused("waiting for a deferred call", &mut |_| pending.take().map_or(Ok(()), |pending| pending.wait().map(drop)));

    // A tensor that was last written elsewhere would have to be waited for.
    let theirs = Packed::new(&other, 10);
    let bad = adaln_row_gather::Inputs { table: theirs.table.view(), ..packed.inputs() };
    let named = "waiting for another stream that has used table";
    let mut spare = Workspace::new(&stream);
    refused(named, &mut |out| {
        let out = out.each_mut().map(Tensor::view_mut);
        adaln_row_gather::forward_into(&stream, &bad, &plan, adaln_row_gather::OutputsMut { out }, &mut spare)
    });
    // Code that no call has loaded yet: another H.
    let narrow = Tensor::<f32>::zeros(&stream, 9, 6 * 3).unwrap();
    let mut narrow_out: [Tensor<f32>; 6] =
        std::array::from_fn(|_| Tensor::zeros(&stream, super::POSITIONS as u64, 3).unwrap());
    let bad = adaln_row_gather::Inputs { table: narrow.view(), ..packed.inputs() };
    refused("loading the code of adaln_row_gather", &mut |_| {
        let out = narrow_out.each_mut().map(Tensor::view_mut);
        adaln_row_gather::forward_into(&stream, &bad, &plan, adaln_row_gather::OutputsMut { out }, &mut spare)
    });
    // A tensor that is dropped meanwhile is freed afterwards, and other streams do what they like.
    let mut dropped = Some(packed.outputs());
    let graph = stream.capture(|| {
        drop(dropped.take());
        let out = adaln_row_gather::forward(&other, &theirs.inputs(), None)?.out;
        theirs.check_forward(&other, &out);
        Ok(())
    });
    graph.unwrap().replay(&stream).unwrap();
    failed_and_panicked_captures_end(&stream);
    let error = stream.capture(|| Ok(())).unwrap().replay(&Device::cpu().stream().unwrap()).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}

fn failed_and_panicked_captures_end(stream: &Stream) {
    let error = stream.capture(|| Err(Error::Workspace)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Workspace), "{error}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.capture(|| panic!("on purpose"))));
    assert!(panicked.is_err());
    stream.synchronize().unwrap();
}
