//! Threads and blocks that work together, rightly and wrongly.

use super::{Bench, Fault, line, source};
use rowloom_codegen::cuda::Source;

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
    source("tree", 64, 2, &body.replace("FIRST", first).replace("OTHERS", others))
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
        let mut lanes: Vec<f32> = (0..64).map(|at| 1.0 / (block * 64 + at + 1) as f32).collect();
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
        assert_eq!(run_tree(&tree("rl_barrier();", "rl_barrier();"), seed), tree_by_hand(), "seed {seed}");
    }
}

#[test]
fn a_removed_barrier_shows_in_the_bytes() {
    for source in [tree("", ""), tree("", "rl_barrier();"), tree("rl_barrier();", "")] {
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
        bench.run(&source, seed, 10, &[tickets, next]).expect("runs");
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
        bench.run(&source, seed, 7, &[partials, arrived, total, last]).expect("runs");
        assert_eq!(bench.read::<f32>(total, 1), [28.0]);
        assert_eq!(bench.read::<u32>(arrived, 1), [7]);
        lasts.extend(bench.read::<u32>(last, 1));
    }
    lasts.sort_unstable();
    lasts.dedup();
    assert!(lasts.len() > 2, "different seeds must end with different blocks: {lasts:?}");
}

/// Every thread writes a part, one says that the block has arrived; the last block adds up.
/// `together` is the barrier between the two.
fn parts(together: &str) -> Source {
    let body = "\
RL_ENTRY(32) kernel(float* parts, rl_u32* arrived, float* totals) {
    RL_SHARED(rl_u32, place, 1);
    rl_u32 thread = rl_thread();
    rl_store(parts + rl_block() * 32 + thread, static_cast<float>(rl_block()));
    rl_fence();
    TOGETHER
    if (thread == 0) place[0] = rl_atomic_add(arrived, 1);
    rl_barrier();
    if (place[0] != rl_blocks() - 1) return;
    rl_fence();
    float sum = 0;
    for (rl_u64 block = 0; block < rl_blocks(); ++block) sum += rl_load_fresh(parts + block * 32 + thread);
    rl_store(totals + thread, sum);
}
";
    source("parts", 32, 3, &body.replace("TOGETHER", together))
}

#[test]
fn a_block_that_arrives_before_its_threads_are_done_shows_in_the_bytes() {
    let wrong = |source: &Source| {
        let is_wrong = |&seed: &u64| {
            let bench = Bench::new();
            let (parts, arrived) = (bench.tensor(&[f32::NAN; 160]), bench.tensor(&[0u32]));
            let totals = bench.tensor(&[f32::NAN; 32]);
            bench.run(source, seed, 5, &[parts, arrived, totals]).expect("runs");
            bench.read::<f32>(totals, 32) != [10.0; 32]
        };
        (0..100).filter(is_wrong).count()
    };
    assert_eq!(wrong(&parts("rl_barrier();")), 0);
    assert!(wrong(&parts("")) >= 5, "{} seeds of 100", wrong(&parts("")));
}

/// Each piece of work waits for the one before, adds its part and hands on. `take` gives a piece
/// its number, `wait` waits.
fn handing_on(take: &str, wait: &str) -> Source {
    let body = "\
RL_ENTRY(32) kernel(rl_u64* next, rl_u64* handed, float* totals) {
    RL_SHARED(rl_u64, ticket, 1);
    rl_u32 thread = rl_thread();
    if (thread == 0) ticket[0] = TAKE;
    rl_barrier();
    const rl_u64 work = ticket[0];
    float total = 0;
    if (work > 0) {
        WAIT
        rl_barrier();
        rl_fence();
        total = rl_load_fresh(totals + (work - 1) * 32 + thread);
    }
    rl_store(totals + work * 32 + thread, total + 1);
    rl_fence();
    rl_barrier();
    if (thread == 0) rl_announce(handed + work);
}
";
    source("handing_on", 32, 3, &body.replace("TAKE", take).replace("WAIT", wait))
}

#[test]
fn what_is_handed_on_by_ticket_arrives_and_nothing_else_does() {
    const WAIT: &str = "if (thread == 0) rl_await(handed + work - 1);";
    let last = |source: &Source, seed: u64| {
        let bench = Bench::new();
        let (next, handed) = (bench.tensor(&[0u64]), bench.tensor(&[0u64; 40]));
        let totals = bench.tensor(&[f32::NAN; 40 * 32]);
        let done = bench.run(source, seed, 40, &[next, handed, totals]);
        done.map(|()| bench.read::<f32>(totals, 40 * 32)[39 * 32..].to_vec())
    };
    let (right, unawaited) = (handing_on("rl_ticket(next)", WAIT), handing_on("rl_ticket(next)", ""));
    for seed in 0..50 {
        assert_eq!(last(&right, seed).expect("runs"), [40.0; 32], "seed {seed}");
    }
    assert!((0..50).filter(|&seed| last(&unawaited, seed).expect("runs") != [40.0; 32]).count() > 25);
    // Blocks begin in any order: who waits for a block by its number may wait for one that cannot begin.
    let by_block = handing_on("rl_block()", WAIT);
    assert!((0..3).any(|seed| last(&by_block, seed).is_err()), "blocks that wait for later ones are stuck");
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
    bench.run(&source("atomics", 8, 2, body), 3, 5, &[least, count]).expect("runs");
    assert_eq!((bench.read::<u64>(least, 1)[0], bench.read::<u32>(count, 1)[0]), (1000 - 39, 40));
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
    assert_eq!((block, fault), (0, Fault::BarrierEnded { line: line(&source, "rl_barrier();\n}\n") }));
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
    let Fault::BarrierSites { line, other_thread, other_line } = fault else { panic!("{fault:?}") };
    assert_eq!((thread < 5, line), (thread < 5, if thread < 5 { few } else { many }));
    assert_eq!(other_line, if other_thread < 5 { few } else { many });
    assert_ne!(line, other_line);
}

#[test]
fn threads_that_wait_for_ever_are_a_fault() {
    let body = "RL_ENTRY(2) kernel(const rl_u32* flag) { while (rl_load_fresh(flag) == 0) {} }\n";
    let bench = Bench::new();
    let flag = bench.tensor(&[0u32]);
    assert_eq!(bench.fault(&source("stuck", 2, 1, body), 1, &[flag]).2, Fault::Stuck);
}
