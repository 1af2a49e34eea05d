//! One broken rule a line: an edit of a good kernel, and what is said of it.

use rowloom_codegen::Kernel;

const GATHER: &str = include_str!("kernels/adaln_row_gather.txt");
const SCATTER: &str = include_str!("kernels/scatter_sum.txt");

/// What the verifier says of `text` after replacing `from` by `to`.
fn faults(text: &str, from: &str, to: &str) -> Vec<String> {
    assert!(text.contains(from), "the edit meets nothing: {from}");
    let kernel = Kernel::parse(&text.replace(from, to)).expect("the edit is well-formed");
    kernel.verify().err().unwrap_or_default().into_iter().map(|fault| fault.message).collect()
}

fn check(text: &str, from: &str, to: &str, expected: &str) {
    let faults = faults(text, from, to);
    assert!(faults.iter().any(|fault| fault.contains(expected)), "{from} -> {to}: {faults:?}");
}

#[test]
fn rows_stay_below_their_count_for_every_count() {
    let ok = |from, to| assert_eq!(faults(GATHER, from, to), Vec::<String>::new(), "{from} -> {to}");
    ok("index<I, R / 3>", "index<I, R / 6>");
    ok("index<I, 3>", "index<I, 2>");
    check(GATHER, "index<I, 3>", "index<I, 4>", "`timestep * 3 + modality` can be as large as R, and rows are in 0..R");
    check(GATHER, "timestep * 3 + modality", "timestep * 3 + modality + 1", "as large as R, and");
    check(GATHER, "timestep * 3 + modality", "timestep * 3 + modality * 4", "as large as R + 5");
    check(GATHER, "index<I, R / 3>", "index<I, R>", "as large as R * 3 - 1");
    check(GATHER, "index<I, R / 3>", "index<I, R / 2>", "as large as R * 3 / 2 - 1");
    // Below R for R = 6 and more, but 3 divides R = 3 too.
    check(GATHER, "timestep * 3 + modality", "timestep * 2 + modality * 2", "can be as large as");
    let bounds = "input timestep: index<I, R / 3>\ninput modality: index<I, 3>\nrow r0: R = timestep * 3 + modality";
    let fixed = bounds.replace("R / 3", "9");
    check(GATHER, bounds, &fixed, "`timestep * 3 + modality` can be as large as 26, and rows are in 0..R");
    let huge = bounds.replace("timestep * 3", "timestep * 18446744073709551615");
    check(GATHER, bounds, &huge, "can be");
}

#[test]
fn each_rule_has_its_sentence() {
    check(GATHER, "block = 256", "block = 0", "a block of 0 positions sums nothing");
    check(GATHER, "R / 3", "R * 2 / 6", "not in lowest terms");
    check(GATHER, "index<I, 3>", "index<I, 0>", "a size of 0 rows holds nothing");
    check(GATHER, "table<T, R, 6>", "table<T, R, 5>", "`table` has 5 chunks, so there is no chunk 5");
    check(GATHER, "table<T, R, 6>", "table<T, R * 2, 6>", "a row expression for another number of rows");
    check(GATHER, "output out:", "output table:", "`table` is declared twice");
    check(GATHER, "[v0, v1,", "[v1, v1,", "this value is never returned");
    check(GATHER, "float T\n", "float T\nfloat U\n", "no input has this type");
    check(GATHER, "int I\n", "int I\nint J\n", "no index has this type");
    check(SCATTER, "index<i32, R, pad = -1>", "index<u8, R, pad = -1>", "`pad = -1` is no u8");
    check(SCATTER, "index<i32, R, pad = -1>", "index<i32, R, pad = 2>", "`pad = 2` may be a row of 0..R");
    check(SCATTER, "read y[0]", "read y[1]", "`y` has no tensor 1");
    check(SCATTER, "output out: table<T, R>", "output out: rows<T>", "not of the shape declared");
    check(SCATTER, "v2: table<T, R> = cast v1", "v2: table<T, R> = zero", "this value is never returned");
}

#[test]
fn lines_that_are_no_kernel_are_named() {
    let error = |text: &str| Kernel::parse(text).unwrap_err().to_string();
    assert_eq!(error(""), "line 1: expected a kernel and its order");
    assert_eq!(error(&GATHER.replace("forward", "sideways")), "line 1: expected forward or backward, found `sideways`");
    assert_eq!(error(&GATHER.replace("table[3]", "table[x]")), "line 13: expected a number, found `x`");
    assert_eq!(error(&GATHER.replace("v3:", "v4:")), "line 13: expected `v3`, found `v4`");
    assert_eq!(error(&GATHER.replace("gather", "scatter")), "line 10: `scatter` is no operation");
    let moved = GATHER.replace("float T\n", "") + "float T\n";
    assert!(error(&moved).contains("is out of order") || error(&moved).contains("element type"));
}
