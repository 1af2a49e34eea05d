//! Hand-written sources, some of them wrong on purpose.

#![expect(unsafe_code, reason = "launches, and memory of a device")]

use rowloom_codegen::cuda::{Count, Entry, Param, Primitive, Source, Step};

use super::emulator::Emulator;
use super::heap::Heap;
use super::{Fault, ThreadId};
use crate::error::Error;

/// A source of one entry `kernel` with `params` parameters; the body is in the first line.
fn source(name: &str, threads: u32, params: usize, body: &str) -> Source {
    let entry = Entry {
        name: "kernel".to_owned(),
        threads,
        grid: Count::Fixed(1),
        params: vec![Param::Positions; params],
    };
    let primitives = Primitive::used_by(body);
    Source {
        name: name.to_owned(),
        header: String::new(),
        primitives,
        body: body.to_owned(),
        steps: vec![Step::Launch(entry)],
        scratch: Vec::new(),
        error: None,
    }
}

/// What runs in one test: a heap, and tensors of u32 in it.
struct Bench {
    heap: Heap,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            heap: Heap::default(),
        }
    }

    fn tensor<T: bytemuck::Pod>(&self, values: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let address = self.heap.allocate(bytes.len() as u64).expect("memory");
        // SAFETY: fresh memory of this size, which no kernel is running on.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }

    fn read<T: bytemuck::Pod>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        assert!(self.heap.holds(address, bytes.len() as u64));
        // SAFETY: inside an allocation, which no kernel is running on.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len())
        };
        values
    }

    fn run(&self, source: &Source, seed: u64, blocks: u64, arguments: &[u64]) -> Result<(), Error> {
        let emulator = Emulator::new(seed)?;
        let function = &emulator.compile(&[source])?[0][0];
        // SAFETY: the bodies here are written for these arguments.
        unsafe { emulator.launch(function, blocks, arguments, &self.heap.ranges()) }?;
        self.heap.check_guards("kernel")
    }

    fn fault(&self, source: &Source, blocks: u64, arguments: &[u64]) -> (u64, u32, Fault) {
        match self.run(source, 1, blocks, arguments) {
            Err(Error::Emulation {
                kernel,
                at: Some(ThreadId { block, thread }),
                fault,
            }) => {
                assert_eq!(kernel, "kernel");
                (block, thread, fault)
            }
            other => panic!("expected a fault, got {other:?}"),
        }
    }
}

/// Line of the device text on which `word` stands.
fn line(source: &Source, word: &str) -> u32 {
    let text = source.text(rowloom_codegen::cuda::Target::Device);
    let above = text.split(word).next().expect("the word is there");
    1 + above.matches('\n').count() as u32
}

/// Each block sums 64 values as a tree; without its barrier the order of threads shows.
fn tree(first: &str, others: &str) -> Source {
    let body = "\
RL_ENTRY(64) kernel(const float* values, float* sums) {
    RL_SHARED(float, lanes, 64);
    rl_u32 thread = rl_thread();
    lanes[thread] = rl_load<float>(values + rl_block() * 64 + thread);
    FIRST
    for (rl_u32 half = 32; half != 0; half /= 2) {
        if (thread < half) lanes[thread] += lanes[thread + half];
        OTHERS
    }
    if (thread == 0) rl_store(sums + rl_block(), lanes[0]);
}
";
    source(
        "tree",
        64,
        2,
        &body.replace("FIRST", first).replace("OTHERS", others),
    )
}

fn run_tree(source: &Source, seed: u64) -> Vec<u32> {
    let bench = Bench::new();
    let values: Vec<f32> = (0..64 * 10).map(|at| 1.0 / (at + 1) as f32).collect();
    let (values, sums) = (bench.tensor(&values), bench.tensor(&[f32::NAN; 10]));
    bench.run(source, seed, 10, &[values, sums]).expect("runs");
    bench.read(sums, 10)
}

fn tree_by_hand() -> Vec<u32> {
    let sum = |block: usize| {
        let mut lanes: Vec<f32> = (0..64)
            .map(|at| 1.0 / (block * 64 + at + 1) as f32)
            .collect();
        while lanes.len() > 1 {
            let half = lanes.split_off(lanes.len() / 2);
            for (lane, other) in lanes.iter_mut().zip(half) {
                *lane += other;
            }
        }
        lanes[0].to_bits()
    };
    (0..10).map(sum).collect()
}

#[test]
fn a_reduction_over_barriers_has_the_same_bytes_under_every_seed() {
    for seed in 0..20 {
        assert_eq!(
            run_tree(&tree("rl_barrier();", "rl_barrier();"), seed),
            tree_by_hand(),
            "seed {seed}"
        );
    }
}

#[test]
fn a_removed_barrier_shows_in_the_bytes() {
    for source in [
        tree("", ""),
        tree("", "rl_barrier();"),
        tree("rl_barrier();", ""),
    ] {
        for seed in 0..5 {
            assert_ne!(run_tree(&source, seed), tree_by_hand(), "seed {seed}");
        }
    }
}

#[test]
fn a_seed_repeats_a_run_and_another_seed_is_another_run() {
    let body = "\
RL_ENTRY(8) kernel(rl_u32* tickets, rl_u32* next) {
    rl_store(tickets + rl_block() * 8 + rl_thread(), rl_atomic_add(next, 1));
}
";
    let source = source("tickets", 8, 2, body);
    let tickets = |seed| {
        let bench = Bench::new();
        let (tickets, next) = (bench.tensor(&[0u32; 80]), bench.tensor(&[0u32]));
        bench
            .run(&source, seed, 10, &[tickets, next])
            .expect("runs");
        bench.read::<u32>(tickets, 80)
    };
    assert_eq!(tickets(5), tickets(5));
    assert_ne!(tickets(5), tickets(6));
    let mut sorted = tickets(5);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..80).collect::<Vec<u32>>());
}

/// The last block to arrive adds up what all have written.
#[test]
fn the_last_block_to_arrive_sees_all_others() {
    let body = "\
RL_ENTRY(32) kernel(float* partials, rl_u32* arrived, float* total, rl_u32* last) {
    RL_SHARED(rl_u32, place, 1);
    if (rl_thread() == 0) {
        rl_store(partials + rl_block(), static_cast<float>(rl_block() + 1));
        rl_fence();
        place[0] = rl_atomic_add(arrived, 1);
    }
    rl_barrier();
    if (place[0] != rl_blocks() - 1 || rl_thread() != 0) return;
    rl_fence();
    float sum = 0;
    for (rl_u64 block = 0; block < rl_blocks(); ++block) sum += rl_load_fresh(partials + block);
    rl_store(total, sum);
    rl_store(last, static_cast<rl_u32>(rl_block()));
}
";
    let source = source("arrival", 32, 4, body);
    let mut lasts = Vec::new();
    for seed in 0..20 {
        let bench = Bench::new();
        let (partials, arrived) = (bench.tensor(&[f32::NAN; 7]), bench.tensor(&[0u32]));
        let (total, last) = (bench.tensor(&[f32::NAN]), bench.tensor(&[u32::MAX]));
        bench
            .run(&source, seed, 7, &[partials, arrived, total, last])
            .expect("runs");
        assert_eq!(bench.read::<f32>(total, 1), [28.0]);
        assert_eq!(bench.read::<u32>(arrived, 1), [7]);
        lasts.extend(bench.read::<u32>(last, 1));
    }
    lasts.sort_unstable();
    lasts.dedup();
    assert!(
        lasts.len() > 2,
        "different seeds must end with different blocks: {lasts:?}"
    );
}

#[test]
fn atomics_of_all_blocks_meet() {
    let body = "\
RL_ENTRY(8) kernel(rl_u64* least, rl_u32* count) {
    RL_SHARED(rl_u32, own, 1);
    if (rl_thread() == 0) own[0] = 0;
    rl_barrier();
    rl_atomic_add(&own[0], 1);
    rl_barrier();
    rl_atomic_min(least, 1000 - rl_block() * 8 - rl_thread());
    if (rl_thread() == 3) rl_atomic_add(count, own[0]);
}
";
    let bench = Bench::new();
    let (least, count) = (bench.tensor(&[u64::MAX]), bench.tensor(&[0u32]));
    bench
        .run(&source("atomics", 8, 2, body), 3, 5, &[least, count])
        .expect("runs");
    assert_eq!(
        (
            bench.read::<u64>(least, 1)[0],
            bench.read::<u32>(count, 1)[0]
        ),
        (1000 - 39, 40)
    );
}

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
    bench
        .run(&source("poison", 1, 1, body), 3, 9, &[seen])
        .expect("runs");
    assert_eq!(bench.read::<u32>(seen, 9), [u32::MAX; 9]);
    let fresh = bench.heap.allocate(4).expect("memory");
    assert_eq!(bench.read::<u32>(fresh, 1), [u32::MAX]);
}

#[test]
fn a_barrier_that_an_ended_thread_misses_is_a_fault() {
    let body = "\
RL_ENTRY(16) kernel(rl_u32* unused) {
    if (rl_thread() == 5) return;
    rl_barrier();
}
";
    let source = source("ended", 16, 1, body);
    let (block, thread, fault) = Bench::new().fault(&source, 1, &[0]);
    assert_eq!(
        (block, fault),
        (
            0,
            Fault::BarrierEnded {
                line: line(&source, "rl_barrier();\n}\n")
            }
        )
    );
    assert_ne!(thread, 5);
}

#[test]
fn two_barriers_at_once_are_a_fault() {
    let body = "\
RL_ENTRY(16) kernel(rl_u32* unused) {
    if (rl_thread() < 5) {
        rl_barrier();  // few
    } else {
        rl_barrier();  // many
    }
}
";
    let source = source("sites", 16, 1, body);
    let (_, thread, fault) = Bench::new().fault(&source, 1, &[0]);
    let (few, many) = (line(&source, "// few"), line(&source, "// many"));
    let Fault::BarrierSites {
        line,
        other_thread,
        other_line,
    } = fault
    else {
        panic!("{fault:?}")
    };
    assert_eq!(
        (thread < 5, line),
        (thread < 5, if thread < 5 { few } else { many })
    );
    assert_eq!(other_line, if other_thread < 5 { few } else { many });
    assert_ne!(line, other_line);
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
    let (from, to) = (
        bench.tensor(&[1.0f32, 2.0, 3.0, 4.0]),
        bench.tensor(&[0.0f32; 4]),
    );
    bench.run(&source, 1, 3, &[from + 8, to]).expect("aligned");
    assert_eq!(bench.read::<f32>(to, 4), [3.0, 4.0, 0.0, 0.0]);
    let load = Fault::Misaligned {
        line: line(&source, "rl_load<rl_vector<float"),
        address: from + 4,
        bytes: 8,
    };
    assert_eq!(bench.fault(&source, 3, &[from + 4, to]), (2, 3, load));
    let store = Fault::Misaligned {
        line: line(&source, "rl_store(to"),
        address: to + 4,
        bytes: 8,
    };
    assert_eq!(bench.fault(&source, 3, &[from, to + 4]), (2, 3, store));
    assert_eq!(bench.read::<f32>(to, 4), [3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn accesses_must_lie_inside_one_allocation() {
    let source = pair();
    let bench = Bench::new();
    let (from, to) = (bench.tensor(&[1.0f32; 4]), bench.tensor(&[0.0f32; 3]));
    for address in [from - 8, from + 16, 0, u64::MAX - 7] {
        let load = Fault::LoadOutside {
            line: line(&source, "rl_load<rl_vector<float"),
            address,
            bytes: 8,
        };
        assert_eq!(bench.fault(&source, 3, &[address, to]), (2, 3, load));
    }
    // The second float of the pair lies behind the third of the allocation.
    let store = Fault::StoreOutside {
        line: line(&source, "rl_store(to"),
        address: to + 8,
        bytes: 8,
    };
    assert_eq!(bench.fault(&source, 3, &[from, to + 8]), (2, 3, store));
    // A fault leaves nothing behind.
    bench.run(&source, 1, 3, &[from, to]).expect("runs");
}

#[test]
fn writes_that_go_round_the_primitives_hit_a_guard() {
    let source = source(
        "plain",
        1,
        2,
        "RL_ENTRY(1) kernel(float* to, rl_u64 at) { to[at] = 1; }\n",
    );
    let bench = Bench::new();
    let to = bench.tensor(&[0.0f32; 3]);
    bench.run(&source, 1, 1, &[to, 2]).expect("inside");
    let said = |at: u64| {
        bench
            .run(&source, 1, 1, &[to, at])
            .expect_err("outside")
            .to_string()
    };
    assert_eq!(
        said(4),
        "kernel: wrote outside of an allocation of 12 bytes, 5 bytes behind it"
    );
    assert_eq!(
        said(u64::MAX - 1),
        "kernel: wrote outside of an allocation of 12 bytes, 8 bytes before it"
    );
}

#[test]
fn writes_behind_a_shared_array_are_a_fault() {
    let body =
        "RL_ENTRY(4) kernel(rl_u64 at) { RL_SHARED(float, few, 4); few[at + rl_thread()] = 1; }\n";
    let source = source("overrun", 4, 1, body);
    Bench::new().run(&source, 1, 2, &[0]).expect("inside");
    assert_eq!(Bench::new().fault(&source, 2, &[1]).2, Fault::SharedOverrun);
}

#[test]
fn threads_that_wait_for_ever_are_a_fault() {
    let body = "RL_ENTRY(2) kernel(const rl_u32* flag) { while (rl_load_fresh(flag) == 0) {} }\n";
    let bench = Bench::new();
    let flag = bench.tensor(&[0u32]);
    assert_eq!(
        bench.fault(&source("stuck", 2, 1, body), 1, &[flag]).2,
        Fault::Stuck
    );
}

#[test]
fn text_that_does_not_compile_is_shown_with_its_line() {
    let source = source(
        "typo",
        1,
        1,
        "RL_ENTRY(1) kernel(rl_u64 at) {\n    rl_stor(at);\n}\n",
    );
    let error = Emulator::new(0)
        .expect("g++")
        .compile(&[&source])
        .err()
        .expect("does not compile");
    let said = error.to_string();
    assert!(said.contains("refused typo:"), "{said}");
    assert!(
        said.contains(&format!("typo.cu:{}:", line(&source, "rl_stor"))),
        "{said}"
    );
}

#[test]
fn many_sources_compile_at_once_and_large_grids_are_fast() {
    let body = "\
RL_ENTRY(128) kernel(const float* from, float* to, rl_u64 which) {
    RL_SHARED(float, lanes, 128);
    lanes[rl_thread()] = rl_load<float>(from + rl_thread());
    rl_barrier();
    float sum = lanes[(rl_thread() + NUMBER) % 128];
    rl_barrier();
    rl_store(to + rl_thread(), rl_round<float>(sum));
}
";
    let sources: Vec<Source> = (0..30)
        .map(|number| {
            source(
                &format!("shift{number}"),
                128,
                3,
                &body.replace("NUMBER", &number.to_string()),
            )
        })
        .collect();
    let emulator = Emulator::new(7).expect("g++");
    let begun = std::time::Instant::now();
    let functions = emulator
        .compile(&sources.iter().collect::<Vec<_>>())
        .expect("compile");
    let compiled = begun.elapsed();
    let bench = Bench::new();
    let from: Vec<f32> = (0..128).map(|at| at as f32).collect();
    let (from, to) = (bench.tensor(&from), bench.tensor(&[0.0f32; 128]));
    let begun = std::time::Instant::now();
    for (number, functions) in functions.iter().enumerate() {
        // SAFETY: the body is written for these arguments.
        unsafe { emulator.launch(&functions[0], 300, &[from, to, 0], &bench.heap.ranges()) }
            .expect("runs");
        assert_eq!(bench.read::<f32>(to, 1), [number as f32]);
    }
    let ran = begun.elapsed() / 30;
    // Far above what it takes, for machines that are busy with other tests.
    assert!(
        compiled.as_secs() < 20 && ran.as_millis() < 500,
        "compiled in {compiled:?}, ran in {ran:?}"
    );
}
