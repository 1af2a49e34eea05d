//! Candidates compared and timed where they run: what is as it should be passes, and whatever a
//! source may do wrong is found. In emulation.

use rowloom_codegen::cuda::{GenerateError, PlanShape, Step};
use rowloom_codegen::ir::RowId;
use rowloom_codegen::{Choice, DType, IntType, SClass, Source, Spec, Subject, Verified, Wants};
use rowloom_runtime::tuning::{Generate, Testbed, compile};
use rowloom_runtime::{Declaration, Device, Error, Stream, sources};

const ADALN: &str = include_str!("kernels/adaln.ir");

const POSITIONS: u64 = 300;

fn spec(kernel: &Verified, planned: bool) -> Spec {
    let s_class = SClass::of(POSITIONS, kernel.order.block);
    Spec { planned, s_class, ..Spec::contiguous(kernel, DType::Bf16, IntType::I32, &[6], 16) }
}

fn forward(planned: bool) -> Subject {
    let declared = Declaration::from_ir(ADALN).expect("declared");
    let kernel = declared.forward().clone();
    Subject::Kernel { spec: spec(&kernel, planned), kernel }
}

fn backward() -> Subject {
    let declared = Declaration::from_ir(ADALN).expect("declared");
    let kernel = Verified::clone(&declared.backward(&Wants::all(declared.forward())));
    Subject::Kernel { spec: spec(&kernel, true), kernel }
}

fn plan() -> Subject {
    let declared = Declaration::from_ir(ADALN).expect("declared");
    let kernel = declared.forward();
    let shape: PlanShape = sources::plan_shape(kernel, &spec(kernel, true), RowId(0));
    Subject::Plan(shape)
}

/// Even in the first packing, nearly all in one row in the second.
fn indices(packing: usize, number: usize, positions: u64) -> Vec<i64> {
    let bound = [2, 3][number];
    let number = |at: u64| match packing {
        0 => (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as i64 % bound,
        _ => {
            if at < positions / 50 {
                at as i64 % bound
            } else {
                0
            }
        }
    };
    (0..positions).map(number).collect()
}

fn stream() -> Stream {
    Device::emulated(5).expect("an emulated device").stream().expect("a stream")
}

fn testbed(stream: &Stream, subject: &Subject, generate: Generate) -> Testbed {
    Testbed::new(stream, subject, POSITIONS, 2, &indices, generate).expect("a testbed")
}

/// Every so many of the legal candidates, the default among them: a compiler is slow.
fn some(subject: &Subject) -> Vec<Choice> {
    let mut space = subject.space();
    space.retain(|choice| subject.generate(choice).is_ok());
    let step = space.len().div_ceil(4);
    space.into_iter().step_by(step).collect()
}

#[test]
fn candidates_as_they_are_pass_and_take_time() {
    for subject in [forward(true), forward(false), backward(), plan()] {
        let stream = stream();
        let mut testbed = testbed(&stream, &subject, Subject::generate);
        let default = subject.default_choice().expect("a default");
        let candidates: Vec<(usize, Choice)> = some(&subject).into_iter().enumerate().collect();
        let compiled = std::sync::Mutex::new(Vec::new());
        let each = |at, result: Result<(), Error>| compiled.lock().expect("whole").push((at, result.is_ok()));
        compile(&stream.device(), &subject, &candidates, Subject::generate, &each).expect("compiled");
        let mut compiled = compiled.into_inner().expect("whole");
        compiled.sort_unstable();
        assert_eq!(compiled, (0..candidates.len()).map(|at| (at, true)).collect::<Vec<_>>());
        assert_eq!(testbed.check_default(&default).expect("checked"), None, "{default}");
        for (_, candidate) in &candidates {
            assert_eq!(testbed.check(&default, candidate).expect("checked"), None, "{candidate}");
            assert!(testbed.time(candidate).expect("timed") > 0.0, "{candidate}");
        }
    }
}

/// The end of the list of arguments of an entry with a row per position.
const POSITIONS_ARGUMENT: &str = "rl_u64 positions) {";

/// A source in which one piece of text is another one.
fn replaced(subject: &Subject, choice: &Choice, from: &str, to: &str) -> Result<Source, GenerateError> {
    let mut source = subject.generate(choice)?;
    // The default is as it should be, or nothing could be told from it.
    if subject.default_choice() != Some(*choice) {
        assert!(source.body.contains(from), "{from} is not in\n{}", source.body);
        source.body = source.body.replace(from, to);
    }
    Ok(source)
}

/// What is found of a candidate, not the default, whose text has `from` and was tampered with.
fn found(subject: &Subject, from: &str, generate: Generate) -> String {
    let stream = stream();
    let mut testbed = testbed(&stream, subject, generate);
    let default = subject.default_choice().expect("a default");
    let has = |choice: &Choice| subject.generate(choice).is_ok_and(|source| source.body.contains(from));
    let liar = subject.space().into_iter().filter(|choice| *choice != default).find(has).expect("another");
    assert_eq!(testbed.check_default(&default).expect("checked"), None);
    testbed.check(&default, &liar).expect("checked").expect("a difference")
}

#[test]
fn one_position_that_is_left_out_is_found() {
    // Whatever the memory held before: nothing that an earlier run has left passes.
    let generate: Generate = |subject, choice| {
        let less = "rl_u64 given) {\n    const rl_u64 positions = given - 1;";
        replaced(subject, choice, POSITIONS_ARGUMENT, less)
    };
    let found = found(&forward(true), POSITIONS_ARGUMENT, generate);
    assert!(found.contains("row 0") && found.contains("with 1 positions"), "{found}");
}

#[test]
fn half_a_result_is_found() {
    let generate: Generate = |subject, choice| {
        let half = "rl_u64 given) {\n    const rl_u64 positions = (given + 1) / 2;";
        replaced(subject, choice, POSITIONS_ARGUMENT, half)
    };
    let found = found(&forward(true), POSITIONS_ARGUMENT, generate);
    assert!(found.contains("row 129") && found.contains("with 257 positions in packing 1"), "{found}");
}

#[test]
fn another_order_of_a_sum_is_found() {
    let generate: Generate =
        |subject, choice| replaced(subject, choice, "order + begin + at", "order + begin + count - 1 - at");
    let found = found(&backward(), "order + begin + at", generate);
    assert!(found.starts_with("d_table[0], row ") && found.contains("not the default's bytes"), "{found}");
}

#[test]
fn a_wrong_array_and_a_wrong_total_of_a_plan_are_found() {
    const ARRAY: &str = "rl_store(partial_start + 6, partials);";
    let array: Generate =
        |subject, choice| replaced(subject, choice, ARRAY, "rl_store(partial_start + 6, partials + 1);");
    let array = found(&plan(), ARRAY, array);
    assert!(array.starts_with("PartialStart[0], row 6, column 0"), "{array}");
    const TOTAL: &str = "static_cast<rl_u64>(partials)";
    let total: Generate = |subject, choice| replaced(subject, choice, TOTAL, "static_cast<rl_u64>(partials + 1)");
    let total = found(&plan(), TOTAL, total);
    assert!(total.starts_with("error word, blocks, partial sums and placed positions"), "{total}");
}

#[test]
fn a_row_of_a_padded_position_that_is_not_written_is_found() {
    // All ones before it runs would be what it should have written.
    const STORE: &str = "rl_store(rows + position, row);";
    let generate: Generate =
        |subject, choice| replaced(subject, choice, STORE, "if (row != 0xFFFFFFFF) rl_store(rows + position, row);");
    let found = found(&plan(), STORE, generate);
    assert!(found.starts_with("Rows[0], row 5, column 0") && found.contains("with 257 positions"), "{found}");
}

#[test]
fn an_error_word_that_is_not_written_is_found() {
    let generate: Generate = |subject, choice| {
        let mut source = subject.generate(choice)?;
        if subject.default_choice() != Some(*choice) {
            let steps = source.steps.len();
            source.steps.retain(|step| matches!(step, Step::Launch(_)));
            assert!(source.steps.len() < steps, "it sets its error word");
        }
        Ok(source)
    };
    let found = found(&forward(false), POSITIONS_ARGUMENT, generate);
    assert!(found.starts_with("error word: [") && found.contains("with 1 positions in packing 1"), "{found}");
}

#[test]
fn a_candidate_that_does_not_look_at_its_indices_is_found() {
    // Of a kernel: the smallest S is enough, where both indices of the only position are bad.
    const FIRST: &str = "static_cast<rl_u64>(timestep) >= 2";
    let first: Generate = |subject, choice| replaced(subject, choice, FIRST, "false");
    let first = found(&forward(false), FIRST, first);
    assert!(first.starts_with("error word: Some(2) in place of Some(1)"), "{first}");
    assert!(first.ends_with("not the default's, with 1 positions and bad indices"), "{first}");
    const LAST: &str = "static_cast<rl_u64>(modality) >= 3";
    let last: Generate = |subject, choice| replaced(subject, choice, LAST, "false");
    let last = found(&forward(false), LAST, last);
    // Positions 85 and 171 of 257.
    assert!(last.starts_with(&format!("error word: Some({}) in place of Some({})", 171 * 256 + 1, 85 * 256 + 2)));
    // Of a plan.
    const TERM: &str = "static_cast<rl_u64>(value1[item]) >= 3";
    let term: Generate = |subject, choice| replaced(subject, choice, TERM, "false");
    let term = found(&plan(), TERM, term);
    assert!(term.starts_with(&format!("error word: Some({}) in place of Some({})", 171 * 256, 85 * 256 + 1)), "{term}");
}

#[test]
fn a_wrong_default_is_found() {
    let generate: Generate = |subject, choice| {
        let mut source = subject.generate(choice)?;
        let half = "rl_u64 given) {\n    const rl_u64 positions = (given + 1) / 2;";
        source.body = source.body.replace(POSITIONS_ARGUMENT, half);
        Ok(source)
    };
    let (stream, subject) = (stream(), forward(true));
    let default = subject.default_choice().expect("a default");
    let found = testbed(&stream, &subject, generate).check_default(&default).expect("checked").expect("a difference");
    assert!(found.contains("not the CPU executor's bytes"), "{found}");
}

#[test]
fn what_does_not_compile_is_told_apart() {
    let generate: Generate = |subject, choice| replaced(subject, choice, POSITIONS_ARGUMENT, "no such name) {");
    let subject = forward(true);
    let default = subject.default_choice().expect("a default");
    let candidates: Vec<(usize, Choice)> = some(&subject).into_iter().enumerate().collect();
    let failed = std::sync::Mutex::new(Vec::new());
    let each = |at, result: Result<(), Error>| {
        if result.is_err() {
            failed.lock().expect("whole").push(at);
        }
    };
    compile(&stream().device(), &subject, &candidates, generate, &each).expect("told");
    let others = candidates.iter().filter(|(_, choice)| *choice != default).map(|(at, _)| *at);
    let mut failed = failed.into_inner().expect("whole");
    failed.sort_unstable();
    assert_eq!(failed, others.collect::<Vec<_>>());
}

#[test]
fn a_capture_and_a_cpu_are_refused_before_they_are_touched() {
    let refused =
        |stream: &Stream| Testbed::new(stream, &forward(true), POSITIONS, 2, &indices, Subject::generate).err();
    let stream = stream();
    let mut error = None;
    let graph = stream.capture(|| {
        error = refused(&stream);
        Ok::<(), Error>(())
    });
    assert!(matches!(error, Some(Error::Captured { ref doing }) if doing == "tuning"), "{error:?}");
    // The capture goes on as if nobody had asked.
    graph.expect("a graph");
    let cpu = Device::cpu().stream().expect("a CPU");
    assert!(matches!(refused(&cpu), Some(Error::NoSchedules)));
}
