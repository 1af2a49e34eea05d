//! Several streams and threads.

use rowloom::{Device, Stream};

use super::{HIDDEN, POSITIONS, Packed, copy, poisoned};

/// What one stream writes behind slow work, another reads; what it reads behind slow work,
/// another overwrites. `slow` keeps a stream busy.
pub fn streams_wait_for_writes_and_reads(device: &Device, slow: &dyn Fn(&Stream)) {
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut packed = Packed::new(&first, 11);
    let plan = packed.plan();
    let mut workspace = packed.workspace(&second, &plan);
    let (mut out, mut gradient) = (packed.outputs(), packed.gradient());
    for seed in 12..15 {
        slow(&first);
        // On the first stream, as all that it makes.
        packed.refill(seed);
        packed.forward_into(&second, Some(&plan), &mut out, &mut workspace).unwrap();
        packed.backward_into(&second, Some(&plan), &mut gradient, &mut workspace).unwrap();
        packed.check_forward(&second, &out);
        packed.check_backward(&first, &gradient);

        slow(&second);
        packed.forward_into(&second, Some(&plan), &mut out, &mut workspace).unwrap();
        let written = packed.table.to_vec(&first).unwrap();
        // The second stream still reads the table.
        copy(&first, &mut packed.table, &vec![f32::NAN; written.len()]);
        packed.check_forward(&second, &out);
        copy(&first, &mut packed.table, &written);
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
