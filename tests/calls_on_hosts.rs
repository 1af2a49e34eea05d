//! Calls in every mode on the CPU and in emulation; `gpu_calls` runs the same on a GPU.

mod calls;

use calls::{Packed, check_all, graphs, streams};
use rowloom::{Device, Error, RowPlan, Tensor};
use rowloom_op_adaln::adaln_row_gather;
use rowloom_runtime::probe::{Asked, Probe};

#[test]
fn every_mode_on_the_cpu() {
    check_all(&Device::cpu());
    streams::threads_share_a_plan(&Device::cpu());
    let error = Device::cpu().stream().unwrap().capture(|| Ok(())).map(drop).unwrap_err();
    assert!(matches!(error, Error::NoGraphs), "{error}");
}

#[test]
fn every_mode_in_emulation() {
    check_all(&Device::emulated(1).unwrap());
}

#[test]
fn graphs_in_emulation() {
    let device = Device::emulated(2).unwrap();
    graphs::replays_see_new_data(&device);
    graphs::graphs_keep_their_memory(&device);
    graphs::captures_refuse_what_they_cannot_hold(&device);
}

#[test]
fn streams_in_emulation() {
    let device = Device::emulated(3).unwrap();
    // Work is done when a call returns: this tests what is right, the order is counted below.
    streams::streams_wait_for_writes_and_reads(&device, &|_| {});
    streams::threads_share_a_plan(&device);
}

/// Not an allocation, not a wait, not an event: a launch for each kernel.
#[test]
fn planned_calls_into_given_tensors_only_launch() {
    let probe = Probe::new().unwrap();
    let stream = probe.device().stream().unwrap();
    let packed = Packed::new(&stream, 20);
    let plan = packed.plan();
    let mut workspace = packed.workspace(&stream, &plan);
    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());
    let mut call = || {
        packed.forward_into(&stream, Some(&plan), &mut out, &mut workspace).unwrap();
        packed.backward_into(&stream, Some(&plan), &mut gradient, &mut workspace).unwrap();
    };
    for _ in 0..2 {
        let Asked { launches, .. } = probe.during(&mut call);
        assert!(launches >= 2);
        assert_eq!(probe.during(&mut call), Asked { launches, ..Asked::default() });
    }
    packed.check_forward(&stream, &out);
    packed.check_backward(&stream, &gradient);
    // A deferred call does not wait either: outputs and the word's place are allocated, one event follows.
    let asked = probe.during(|| drop(packed.forward_deferred().unwrap()));
    assert_eq!((asked.waits, asked.synchronizations, asked.events), (0, 0, 1));
    stream.synchronize().unwrap();
}

/// A read waits for the last write alone, once; a write waits for all.
#[test]
fn streams_that_only_read_do_not_wait_for_one_another() {
    let probe = Probe::new().unwrap();
    let [first, second, third] = std::array::from_fn(|_| probe.device().stream().unwrap());
    let mut packed = Packed::new(&first, 21);
    let plan = packed.plan();
    let waits = |body: &mut dyn FnMut()| probe.during(body).waits;
    let forward = |packed: &Packed, stream| {
        // Outputs and workspace of its own stream.
        adaln_row_gather::forward(stream, &packed.inputs(), &plan).unwrap();
    };
    assert_eq!(waits(&mut || forward(&packed, &first)), 0);
    // The table alone is read; the plan is complete.
    assert_eq!(waits(&mut || forward(&packed, &second)), 1);
    assert_eq!(waits(&mut || forward(&packed, &second)), 0, "that write was waited for");
    assert_eq!(waits(&mut || forward(&packed, &third)), 1, "for the writer, not for the other reader");
    // The table is written: two readers; the six cotangents have none.
    assert_eq!(waits(&mut || packed.refill(22)), 2);
    assert_eq!(waits(&mut || forward(&packed, &second)), 1);
    // Freed behind its one reader.
    assert_eq!(waits(&mut || drop(std::mem::replace(&mut packed.table, Tensor::zeros(&first, 1, 1).unwrap()))), 1);
}

#[test]
fn devices_that_look_alike_have_names_of_their_own() {
    let (left, right) = (Device::emulated(0).unwrap(), Device::emulated(0).unwrap());
    assert_ne!(left.name(), right.name());
    let (stream, elsewhere) = (left.stream().unwrap(), right.stream().unwrap());
    let row = Tensor::from_slice(&elsewhere, &[0i64], 1, 1).unwrap();
    let error = RowPlan::new(&stream, row.view().any(), 1).map(drop).unwrap_err();
    let (here, there) = (left.name(), right.name());
    assert_eq!(error.to_string(), format!("row is on {there}, but the call runs on {here}"));
}

#[test]
fn the_best_device_hides_no_failure() {
    match Device::count() {
        Ok(0) => assert_eq!(Device::best().unwrap(), Device::cpu()),
        Ok(_) => assert_eq!(Device::best().unwrap().name(), "cuda:0"),
        Err(error) => assert_eq!(Device::best().unwrap_err().to_string(), error.to_string()),
    }
}
