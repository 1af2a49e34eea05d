//! Calls on a GPU: modes, streams, graphs, deferred errors. The same as `calls_on_hosts`,
//! where the order of streams matters.

mod calls;
#[path = "cases/gpu.rs"]
mod gpu;

use calls::{Packed, check_all, graphs, modes, streams};
use gpu::gpu;
use rowloom::{Device, Error, Stream};
use rowloom_runtime::baseline::Baseline;

/// Keeps a stream busy for longer than anything here takes.
fn slow(stream: &Stream) {
    Baseline::new(stream).delay(20_000).unwrap();
}

#[test]
fn every_mode() {
    let Some(device) = gpu() else { return };
    check_all(&device);
}

#[test]
fn tensors_of_one_stream_are_right_on_another_behind_slow_work() {
    let Some(device) = gpu() else { return };
    streams::streams_wait_for_writes_and_reads(&device, &slow);
}

#[test]
fn two_threads_share_a_plan() {
    let Some(device) = gpu() else { return };
    streams::threads_share_a_plan(&device);
}

#[test]
fn graphs_replay_with_new_data() {
    let Some(device) = gpu() else { return };
    graphs::replays_see_new_data(&device);
}

#[test]
fn graphs_keep_their_memory() {
    let Some(device) = gpu() else { return };
    graphs::graphs_keep_their_memory(&device);
}

#[test]
fn captures_refuse_what_they_cannot_hold() {
    let Some(device) = gpu() else { return };
    graphs::captures_refuse_what_they_cannot_hold(&device);
}

/// What is not known yet is not waited for: the error comes with the first call after it is.
#[test]
fn a_deferred_call_waits_for_nothing() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 30);
    packed.forward_deferred().unwrap().wait().unwrap();
    // Copying it to the device waits for the stream.
    let modality = calls::wrong(&stream);
    slow(&stream);
    modes::leave_a_bad_call(&packed, &modality);
    let good = packed.forward_deferred().unwrap();
    packed.check_forward(&stream, &good.wait().unwrap().out);
    let error = packed.forward_deferred().map(drop).unwrap_err();
    assert!(matches!(error, Error::Deferred { position: 59, .. }), "{error}");
    packed.check_forward(&stream, &packed.forward_deferred().unwrap().wait().unwrap().out);
}

#[test]
fn every_gpu_is_counted() {
    let Some(_) = gpu() else { return };
    let count = Device::count().unwrap();
    for ordinal in 0..count {
        assert_eq!(Device::cuda(ordinal).unwrap().name(), format!("cuda:{ordinal}"));
    }
    let error = Device::cuda(count).unwrap_err();
    assert!(matches!(error, Error::NoDevice { found, .. } if found == count), "{error}");
}
