//! Every command as its user runs it: exit codes, one-sentence errors, files
//! that appear whole or not at all.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn rowloom(arguments: &[&str]) -> Output {
    Command::new(cargo_bin!("rowloom")).args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = rowloom(arguments);
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    text(&output.stdout)
}

/// The error of a command that ends with `code`: one line, nothing on standard output.
fn fails(arguments: &[&str], code: i32) -> String {
    let output = rowloom(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
    error.strip_prefix("error: ").expect("it says that it is an error").trim_end().to_owned()
}

fn files(folder: &Path) -> usize {
    folder.read_dir().expect("a folder").count()
}

const EMIT: [&str; 6] = ["emit", "adaln_row_gather", "--dtype", "bf16", "--rows", "9"];

fn emit(more: &[&str]) -> Vec<&'static str> {
    // Leaking a few words keeps the tests readable.
    let more = more.iter().map(|word| &*Box::leak(word.to_string().into_boxed_str()));
    EMIT.into_iter().chain(more).collect()
}

#[test]
fn list_names_every_kernel_with_its_signature() {
    let list = succeeds(&["list"]);
    for kernel in ["adaln_row_gather<", "row_gather<", "row_scatter_sum<"] {
        assert!(list.lines().any(|line| line.starts_with(kernel)), "{list}");
    }
    let json: serde_json::Value = serde_json::from_str(&succeeds(&["list", "--json"])).expect("JSON");
    let names: Vec<_> = json.as_array().expect("a list").iter().map(|kernel| kernel["name"].clone()).collect();
    assert_eq!(names, ["adaln_row_gather", "row_gather", "row_scatter_sum"]);
    assert!(json[0]["signature"].as_str().expect("text").contains("Index<I, { R / 3 }>"));
    assert!(!json[0]["docs"].as_str().expect("text").is_empty());
}

#[test]
fn help_has_examples_for_every_command() {
    for arguments in
        [&["--help"][..], &["emit", "--help"], &["report", "--help"], &["compare", "--help"], &["selftest", "--help"]]
    {
        let help = succeeds(arguments);
        assert!(help.contains("Examples:\n  rowloom "), "{help}");
    }
    assert!(succeeds(&["--version"]).starts_with("rowloom "));
}

#[test]
fn emit_prints_source_that_stands_alone() {
    for more in [&[][..], &["--checked"], &["--backward"], &["--plan"], &["--backward", "--plan=0"]] {
        let source = succeeds(&emit(more));
        assert!(source.contains("extern \"C\" __global__"), "{more:?}");
        assert!(!source.contains("#include"), "{more:?}");
        assert!(!source.contains("atomicAdd(float"), "{more:?}");
        assert!(source.starts_with("// "), "{more:?}");
    }
    assert!(succeeds(&emit(&[])).starts_with("// adaln_row_gather forward, planned"));
    assert!(succeeds(&emit(&["--checked"])).starts_with("// adaln_row_gather forward, checked"));
    assert!(succeeds(&emit(&["--plan"])).starts_with("// plan"));
}

#[test]
fn emit_prints_the_part_to_read_alone() {
    for more in [&[][..], &["--checked"], &["--backward"], &["--plan"]] {
        let body = succeeds(&emit(&[more, &["--format", "body"]].concat()));
        let whole = succeeds(&emit(more));
        assert!(body.starts_with("// ") && body.contains("\n// primitives "), "{more:?}: {body}");
        assert!(body.contains("\nRL_ENTRY(") && body.contains("\n// launch "), "{more:?}: {body}");
        assert!(!body.contains("__forceinline__") && whole.contains("__forceinline__"), "{more:?}: {body}");
        let kernel = &body[body.find("RL_ENTRY").expect("an entry")..body.rfind("}\n").expect("its end")];
        assert!(whole.contains(kernel), "{more:?}: {body}");
    }
}

#[test]
fn emit_follows_rows_types_and_sizes() {
    let nine = succeeds(&emit(&[]));
    let named = succeeds(&["emit", "adaln_row_gather", "--dtype", "bf16", "--rows", "R=9"]);
    assert_eq!(nine, named);
    let many = succeeds(&["emit", "adaln_row_gather", "--dtype", "bf16", "--rows", "4095"]);
    assert!(many.contains("R = 4095"), "{many}");
    let small = succeeds(&emit(&["--hidden", "64", "--index", "i32", "--positions", "9", "--arch", "sm_80"]));
    for word in ["H = 64", "I = i32", "sm_80"] {
        assert!(small.contains(word), "{word}: {small}");
    }
}

#[test]
fn emit_prints_the_kernel_itself() {
    let forward = succeeds(&emit(&["--format", "ir"]));
    assert!(forward.starts_with("kernel adaln_row_gather forward\n"), "{forward}");
    let backward = succeeds(&emit(&["--format", "ir", "--backward"]));
    assert!(backward.contains("segment_sum"), "{backward}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kernel.ir");
    succeeds(&emit(&["--format", "ir", "--out", file.to_str().expect("text")]));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), forward);
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn bad_requests_are_one_sentence_and_exit_2() {
    let out = ["--out", "never-written.json"];
    let report = |more: &[&'static str]| [&["report", "adaln_row_gather"][..], &out, more].concat();
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (vec![], "no command was given; write `rowloom list`, `rowloom emit`"),
        (
            vec!["cache"],
            "write `rowloom cache stats`, `rowloom cache verify`, `rowloom cache clear`, or see `rowloom cache --help`",
        ),
        (vec!["lst"], "unrecognized subcommand 'lst'"),
        (vec!["--wrong", "emit"], "see `rowloom --help`"),
        (emit(&["--wrong"]), "see `rowloom emit --help`"),
        (vec!["cache", "stats", "--wrong"], "see `rowloom cache stats --help`"),
        (vec!["cache", "stat"], "see `rowloom cache --help`"),
        (emit(&["--rows", "10"]), "R / 3 is no whole number for R = 10"),
        (emit(&["--rows", "0"]), "R is 0; it must be at least 1"),
        (emit(&["--rows", "N=9"]), "adaln_row_gather has no row count `N`; it has R"),
        (emit(&["--rows", "R=9,R=12"]), "--rows has R=9 and R=12; give R one number"),
        (emit(&["--rows", "9,R=9,12"]), "--rows has 9 and 12; give all row counts one number"),
        (emit(&["--rows", "4294967294"]), "R must be a multiple of 3, such as 4294967292"),
        (emit(&["--rows", "nine"]), "`nine` is no number of rows"),
        (emit(&["--dtype", "bf17"]), "`bf17` is no element type; it is one of f32, f16, bf16"),
        (emit(&["--index", "i128"]), "`i128` is no index type; it is one of u8, i32, i64"),
        (emit(&["--arch", "90"]), "`90` is no architecture; write sm_80"),
        (emit(&["--format", "elf"]), "possible values: cuda, body, ir, ptx, cubin"),
        (emit(&["--positions", "0"]), "the number of positions must be at least 1"),
        (emit(&["--hidden", "0"]), "the number of columns must be at least 1"),
        (emit(&["--backward", "--checked"]), "needs a plan"),
        (emit(&["--plan=3"]), "has 1 row expression"),
        (vec!["emit", "adaln_row_gahter", "--dtype", "f32", "--rows", "9"], "did you mean `adaln_row_gather`"),
        (vec!["emit", "adaln_row_gather", "--rows", "9"], "--dtype <DTYPE>"),
        (vec!["report", "nothing", "--out", "x"], "there is no kernel `nothing`; write one of"),
        (vec!["report", "adaln_row_gather"], "--out <OUT>"),
        (report(&["--device", "gpu"]), "`gpu` is no device; write cpu, cuda:0"),
        (report(&["--layout", "blok"]), "`blok` is no layout; write one of interleaved, block"),
        (report(&["--rows", "10"]), "R / 3 is no whole number for R = 10"),
        (report(&["--positions", "0"]), "the number of positions must be at least 1"),
        (report(&["--positions", "4097,abc"]), "`abc` is no number of positions; write 32768"),
        (report(&["--quik"]), "unexpected argument '--quik'"),
    ];
    for (arguments, words) in cases {
        // A repeated option is refused by its own sentence; the last one is meant here.
        let arguments = last_of_each(&arguments);
        let error = fails(&arguments, 2);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    assert!(!Path::new("never-written.json").exists());
}

/// The arguments with only the last use of each option.
fn last_of_each<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let repeated = |at: usize| arguments[at].starts_with("--") && arguments[at + 1..].contains(&arguments[at]);
    let dropped = |at: usize| repeated(at) || (at > 0 && repeated(at - 1));
    (0..arguments.len()).filter(|at| !dropped(*at)).map(|at| arguments[at]).collect()
}

#[test]
fn places_that_cannot_be_written_are_found_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").expect("written");
    let inside = file.join("r.json");
    let missing = folder.path().join("missing").join("r.json");
    for (path, words) in [
        (folder.path(), "it is a folder; name a file in it"),
        (&*missing, "there is no such folder; make it or choose another --out"),
        (&*inside, "not a directory; choose another --out"),
        (&folder.path().join("missing/"), "it names a folder; name a file in it"),
    ] {
        let path = path.to_str().expect("text");
        for arguments in [
            &["report", "adaln_row_gather", "--quick", "--out", path][..],
            &["emit", "adaln_row_gather", "--dtype", "f32", "--rows", "9", "--out", path],
        ] {
            let error = fails(arguments, 1);
            assert!(error.contains(words), "{error}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "kept");
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn a_missing_gpu_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r.json");
    let out = out.to_str().expect("text");
    // No machine has this one, with or without a driver.
    let error = fails(&["report", "adaln_row_gather", "--device", "cuda:4000", "--out", out], 1);
    assert!(error.contains("no CUDA driver") || error.contains("no cuda:4000"), "{error}");
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    for arguments in [&["list"][..], &["list", "--json"], &EMIT, &["--help"]] {
        let mut child = Command::new(cargo_bin!("rowloom"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn sizes_that_no_machine_holds_are_refused_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r.json");
    let out = out.to_str().expect("a plain path");
    let report = ["report", "row_gather", "--quick", "--positions", "5", "--out", out];
    let large = [&report[..], &["--rows", "4294967294", "--hidden", "1000000000"]].concat();
    assert!(fails(&large, 1).contains("GiB are free; choose a smaller"));
    let wide = [&report[..], &["--rows", "9", "--hidden", "9223372036854775808"]].concat();
    assert!(fails(&wide, 2).contains("the limit is"));
    assert_eq!(files(folder.path()), 0);
}

#[test]
fn selftest_compares_with_recorded_digests_and_names_what_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("digests.txt");
    let path = path.to_str().expect("text");
    // Every case of one op, on the digests that came with this version.
    let passed = succeeds(&["selftest", "row_gather", "--device", "cpu"]);
    assert!(passed.contains(" 0 differ") && !passed.contains("no recorded digest"), "{passed}");
    succeeds(&["selftest", "--device", "cpu", "--record", path]);
    let made = std::fs::read_to_string(path).expect("it was written");
    assert_eq!(made, include_str!("../data/selftest.txt"), "this machine's CPU gives other bytes, or record again");
    // One digit of one digest.
    let line = made.lines().find(|line| line.contains(" row_gather backward")).expect("it is there");
    let flipped = if line.starts_with('0') { "1" } else { "0" }.to_owned() + &line[1..];
    std::fs::write(path, made.replace(line, &flipped)).expect("it can be written");
    let case = &line[65..];
    let json = rowloom(&["selftest", "row_gather", "--device", "cpu", "--digests", path, "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let error = text(&json.stderr);
    assert_eq!(error, format!("error: 1 cases differ on cpu, the first is `{case}`\n"));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["passed"], false);
    let cases = json["cases"].as_array().expect("a list");
    let differing: Vec<_> =
        cases.iter().filter(|case| !case["differing"].as_array().expect("a list").is_empty()).collect();
    assert_eq!(differing.len(), 1);
    assert_eq!(differing[0]["case"], case);
    assert_eq!(differing[0]["digest"], flipped[..64]);
    let refused = fails(&["selftest", "--device", "emulated", "--record", path], 2);
    assert!(refused.contains("on the CPU"), "{refused}");
    fails(&["selftest", "--device", "abacus"], 2);
    fails(&["selftest", "row_gahter"], 2);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_even_to_where_nothing_is_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, link) = (folder.path().join("target.ir"), folder.path().join("link.ir"));
    std::os::unix::fs::symlink("target.ir", &link).expect("a link");
    succeeds(&emit(&["--format", "ir", "--out", link.to_str().expect("text")]));
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert!(std::fs::read_to_string(&target).expect("a file").starts_with("kernel adaln_row_gather"));
    let circle = folder.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).expect("a link");
    let error = fails(&emit(&["--out", circle.to_str().expect("text")]), 1);
    assert!(error.contains("its links lead in a circle"), "{error}");
    assert_eq!(files(folder.path()), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_without_new_files_is_named() {
    let error = fails(&emit(&["--out", "/proc/x"]), 1);
    assert_eq!(error, "cannot write x into /proc: no file can be made in it; choose another --out");
}

#[test]
fn compare_shows_reports_side_by_side() {
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/data/adaln_row_gather_b200.json");
    let table = succeeds(&["compare", published, published]);
    assert!(table.contains("adaln_row_gather_b200: rl_kernel"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("S = 4097: fwd_us") && line.contains("×1.63")), "{table}");
    let json: serde_json::Value = serde_json::from_str(&succeeds(&["compare", published, "--json"])).expect("JSON");
    assert_eq!(json["columns"][1]["implementation"], "rl_kernel");
    assert!(fails(&["compare", "nothing.json"], 1).contains("cannot read nothing.json: no such file"));
    assert!(fails(&["compare"], 2).contains("<REPORTS>"));
}
