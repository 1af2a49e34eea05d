//! Accesses that are checked, and memory that nobody wrote.

use super::{Bench, Fault, line, source};
use rowloom_codegen::cuda::Source;

#[test]
fn fresh_shared_arrays_hold_nan_in_every_block() {
    let body = "\
RL_ENTRY(1) kernel(rl_u32* seen) {
    RL_SHARED(rl_u32, word, 3);
    rl_store(seen + rl_block(), word[2]);
    word[2] = 7;
}
";
    let bench = Bench::new();
    let seen = bench.tensor(&[0u32; 9]);
    bench.run(&source("poison", 1, 1, body), 3, 9, &[seen]).expect("runs");
    assert_eq!(bench.read::<u32>(seen, 9), [u32::MAX; 9]);
    let fresh = bench.heap.allocate(4).expect("memory");
    assert_eq!(bench.read::<u32>(fresh, 1), [u32::MAX]);
}

/// Reads and writes `rl_vector<float, 2>` at addresses of the test's choice.
fn pair() -> Source {
    let body = "\
RL_ENTRY(4) kernel(const float* from, float* to) {
    if (rl_block() != 2 || rl_thread() != 3) return;
    auto pair = rl_load<rl_vector<float, 2>>(from);
    rl_store(to, pair);
}
";
    source("pair", 4, 2, body)
}

#[test]
fn accesses_must_be_aligned_to_their_size() {
    let source = pair();
    let bench = Bench::new();
    let (from, to) = (bench.tensor(&[1.0f32, 2.0, 3.0, 4.0]), bench.tensor(&[0.0f32; 4]));
    bench.run(&source, 1, 3, &[from + 8, to]).expect("aligned");
    assert_eq!(bench.read::<f32>(to, 4), [3.0, 4.0, 0.0, 0.0]);
    let load = Fault::Misaligned { line: line(&source, "rl_load<rl_vector<float"), address: from + 4, bytes: 8 };
    assert_eq!(bench.fault(&source, 3, &[from + 4, to]), (2, 3, load));
    let store = Fault::Misaligned { line: line(&source, "rl_store(to"), address: to + 4, bytes: 8 };
    assert_eq!(bench.fault(&source, 3, &[from, to + 4]), (2, 3, store));
    assert_eq!(bench.read::<f32>(to, 4), [3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn accesses_must_lie_inside_one_allocation() {
    let source = pair();
    let bench = Bench::new();
    let (from, to) = (bench.tensor(&[1.0f32; 4]), bench.tensor(&[0.0f32; 3]));
    for address in [from - 8, from + 16, 0, u64::MAX - 7] {
        let load = Fault::LoadOutside { line: line(&source, "rl_load<rl_vector<float"), address, bytes: 8 };
        assert_eq!(bench.fault(&source, 3, &[address, to]), (2, 3, load));
    }
    // The second float of the pair lies behind the third of the allocation.
    let store = Fault::StoreOutside { line: line(&source, "rl_store(to"), address: to + 8, bytes: 8 };
    assert_eq!(bench.fault(&source, 3, &[from, to + 8]), (2, 3, store));
    // A fault leaves nothing behind.
    bench.run(&source, 1, 3, &[from, to]).expect("runs");
}

#[test]
fn writes_that_go_round_the_primitives_hit_a_guard() {
    let source = source("plain", 1, 2, "RL_ENTRY(1) kernel(float* to, rl_u64 at) { to[at] = 1; }\n");
    let bench = Bench::new();
    let to = bench.tensor(&[0.0f32; 3]);
    bench.run(&source, 1, 1, &[to, 2]).expect("inside");
    let said = |at: u64| bench.run(&source, 1, 1, &[to, at]).expect_err("outside").to_string();
    assert_eq!(said(4), "kernel: wrote outside of an allocation of 12 bytes, 5 bytes behind it");
    assert_eq!(said(u64::MAX - 1), "kernel: wrote outside of an allocation of 12 bytes, 8 bytes before it");
}

#[test]
fn writes_behind_a_shared_array_are_a_fault() {
    let body = "RL_ENTRY(4) kernel(rl_u64 at) { RL_SHARED(float, few, 4); few[at + rl_thread()] = 1; }\n";
    let source = source("overrun", 4, 1, body);
    Bench::new().run(&source, 1, 2, &[0]).expect("inside");
    assert_eq!(Bench::new().fault(&source, 2, &[1]).2, Fault::SharedOverrun);
}
