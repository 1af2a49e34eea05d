//! Many sources, and wrong ones.

use super::{Bench, Emulator, line, source};
use rowloom_codegen::cuda::Source;

#[test]
fn text_that_does_not_compile_is_shown_with_its_line() {
    let source = source("typo", 1, 1, "RL_ENTRY(1) kernel(rl_u64 at) {\n    rl_stor(at);\n}\n");
    let error = Emulator::new(0).expect("g++").compile(&[&source]).err().expect("does not compile");
    let said = error.to_string();
    assert!(said.contains("refused typo:"), "{said}");
    assert!(said.contains(&format!("typo.cu:{}:", line(&source, "rl_stor"))), "{said}");
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
    rl_store(to + rl_thread(), rl_f32_from_f32(sum));
}
";
    let sources: Vec<Source> = (0..30)
        .map(|number| source(&format!("shift{number}"), 128, 3, &body.replace("NUMBER", &number.to_string())))
        .collect();
    let emulator = Emulator::new(7).expect("g++");
    let begun = std::time::Instant::now();
    let functions = emulator.compile(&sources.iter().collect::<Vec<_>>()).expect("compile");
    let compiled = begun.elapsed();
    let bench = Bench::new();
    let from: Vec<f32> = (0..128).map(|at| at as f32).collect();
    let (from, to) = (bench.tensor(&from), bench.tensor(&[0.0f32; 128]));
    let begun = std::time::Instant::now();
    for (number, functions) in functions.iter().enumerate() {
        // SAFETY: the body is written for these arguments.
        unsafe { emulator.launch(&functions[0], 300, &[from, to, 0], &bench.heap.ranges()) }.expect("runs");
        assert_eq!(bench.read::<f32>(to, 1), [number as f32]);
    }
    let ran = begun.elapsed() / 30;
    // Far above what it takes, for machines that are busy with other tests.
    assert!(compiled.as_secs() < 20 && ran.as_millis() < 500, "compiled in {compiled:?}, ran in {ran:?}");
}
