//! Several streams and threads.

use rowloom::{Device, Stream};

use super::{HIDDEN, POSITIONS, Packed, ROWS, copy, poisoned};

/// What one stream writes behind slow work, another reads; what it reads behind slow work,
/// another overwrites. `slow` keeps a stream busy.
pub fn streams_wait_for_writes_and_reads(device: &Device, slow: &dyn Fn(&Stream)) {
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut packed = Packed::new(&first, 11);
    let plan = packed.plan();
    let mut workspace = packed.workspace(&second, &plan);
    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());
    for seed in 12..15 {
        let next = Packed::new(&first, seed);
        slow(&first);
        packed.copy_from(&next);
        packed.forward_into(&second, Some(&plan), &mut out, &mut workspace).unwrap();
        packed.backward_into(&second, Some(&plan), &mut gradient, &mut workspace).unwrap();
        packed.check_forward(&second, &out);
        packed.check_backward(&first, &gradient);

        let nan = poisoned(&first, ROWS, 6 * HIDDEN);
        first.synchronize().unwrap();
        slow(&second);
        packed.forward_into(&second, Some(&plan), &mut out, &mut workspace).unwrap();
        // The second stream has not read the table yet.
        packed.table.view_mut().any().copy_from(&first, nan.view().any()).unwrap();
        packed.check_forward(&second, &out);
    }
    // Freed while another stream uses it.
    let source = poisoned(&first, POSITIONS, HIDDEN);
    let mut kept = packed.outputs();
    slow(&second);
    kept[0].view_mut().any().copy_from(&second, source.view().any()).unwrap();
    drop(source);
    let _reused: Vec<_> =
        (0..4).map(|_| copy(&first, &mut poisoned(&first, POSITIONS, HIDDEN), &[0.0; POSITIONS * HIDDEN])).collect();
    assert!(kept[0].to_vec(&second).unwrap().iter().all(|value| value.is_nan()));
}

/// Two threads, each with a stream and a workspace, on one plan and the same inputs.
pub fn threads_share_a_plan(device: &Device) {
    let stream = device.stream().unwrap();
    let packed = Packed::new(&stream, 16);
    let plan = packed.plan();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                let mut workspace = packed.workspace(&stream, &plan);
                for _ in 0..10 {
                    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());
                    packed.forward_into(&stream, Some(&plan), &mut out, &mut workspace).unwrap();
                    packed.backward_into(&stream, Some(&plan), &mut gradient, &mut workspace).unwrap();
                    packed.check_forward(&stream, &out);
                    packed.check_backward(&stream, &gradient);
                }
            });
        }
    });
}
