//! `rowloom tune --show`, `--export` and `--import`, and the records in a pack. No GPU is needed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use assert_cmd::cargo::cargo_bin;
use rowloom_codegen::ir::RowId;
use rowloom_codegen::{Arch, Choice, DType, IntType, SClass, Source, Spec, Subject, Wants};
use rowloom_op_adaln::adaln_row_gather;
use rowloom_runtime::cache::{CodeCache, Pack};
use rowloom_runtime::tuning::{For, Found, Machine, Outcome, Record, Records, Trial};
use rowloom_runtime::{Nvrtc, sources};
use serde_json::{Value, json};

/// The command over a cache folder: exit code, output, error.
fn rowloom(arguments: &[&str], cache: &Path, environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(cargo_bin!("rowloom"));
    for name in ["ROWLOOM_PACK", "ROWLOOM_JIT", "ROWLOOM_TUNE", "ROWLOOM_CACHE_BYTES"] {
        command.env_remove(name);
    }
    command.args(arguments).env("ROWLOOM_CACHE_DIR", cache).envs(environment.iter().copied());
    let output = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn succeeds(arguments: &[&str], cache: &Path) -> String {
    let (code, text, error) = rowloom(arguments, cache, &[]);
    assert_eq!((code, &*error), (Some(0), ""), "{arguments:?}");
    text
}

fn fails(arguments: &[&str], cache: &Path) -> String {
    let (code, text, error) = rowloom(arguments, cache, &[]);
    assert_eq!((code, &*text, error.lines().count()), (Some(1), "", 1), "{arguments:?}: {error}");
    error
}

const S: u64 = 300;

fn backward() -> Subject {
    let declared = adaln_row_gather::declaration();
    let kernel = declared.backward(&Wants::all(declared.forward()));
    let mut spec = Spec::contiguous(&kernel, DType::Bf16, IntType::I64, &[9], 8);
    spec.s_class = SClass::of(S, kernel.order.block);
    Subject::Kernel { kernel: (*kernel).clone(), spec }
}

fn plan() -> Subject {
    let Subject::Kernel { kernel, spec } = backward() else { unreachable!("it is a kernel's") };
    Subject::Plan(sources::plan_shape(&kernel, &spec, RowId(0)))
}

fn another(subject: &Subject) -> Choice {
    let default = subject.default_choice().expect("a default");
    let legal = |choice: &Choice| *choice != default && subject.generate(choice).is_ok();
    subject.space().into_iter().find(legal).unwrap_or(default)
}

fn h200(nvrtc: (u32, u32)) -> Machine<'static> {
    let compiler = move |_: &Source| Ok(Some(nvrtc));
    Machine::new("NVIDIA H200", Some("580.159.04".to_owned()), Arch::SM_90, compiler)
}

fn emulation() -> Machine<'static> {
    Machine::new("emulated", None, Arch::SM_90, |_| Ok(None))
}

fn record(subject: &Subject, positions: u64, machine: &Machine<'_>) -> Record {
    let (default, winner) = (subject.default_choice().expect("a default"), another(subject));
    let timed = |schedule, us| Trial { schedule, outcome: Outcome::Timed { us, rounds: 30, bit_equal: true } };
    Record {
        key: For::of(subject, machine.arch, positions),
        provenance: machine.provenance(&subject.generate(&winner).expect("legal")).expect("a compiler"),
        positions,
        default,
        winner,
        default_us: 503.2,
        winner_us: 480.1,
        seconds: 1.5,
        date: "2026-11-30".to_owned(),
        candidates: vec![timed(default, 503.2), timed(winner, 480.1)],
    }
}

fn keep(cache: &Path, records: &[Record]) {
    let records: Vec<Arc<Record>> = records.iter().cloned().map(Arc::new).collect();
    Records::over(None, Some(cache)).add_all(&records).expect("kept");
}

#[test]
fn show_says_what_is_used_here_and_why_the_rest_is_not() {
    let cache = tempfile::tempdir().expect("a folder");
    let cache = cache.path();
    assert_eq!(succeeds(&["tune", "--show"], cache), "no records; `rowloom tune KERNEL` makes some\n");
    let mut old = record(&backward(), 5000, &emulation());
    old.provenance.source = "0".repeat(64);
    let elsewhere = record(&backward(), S, &machine_nobody_has());
    keep(cache, &[record(&backward(), S, &emulation()), old, record(&plan(), S, &emulation()), elsewhere]);
    fs::write(cache.join("tuning/kernel-x-y.json"), "{").expect("written");
    let shown: Value = serde_json::from_str(&succeeds(&["tune", "--show", "--json"], cache)).expect("JSON");
    let lines = shown["records"].as_array().expect("a list");
    let found: Vec<(&Value, &Value)> = lines.iter().map(|line| (&line["product"], &line["usable"])).collect();
    let (emulated, elsewhere) = (json!("emulated"), json!("Nobody's GPU"));
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(found, [(&elsewhere, &no), (&emulated, &yes), (&emulated, &no), (&emulated, &yes)]);
    let reason = |line: usize| lines[line]["reason"].as_str().expect("a reason");
    assert!(reason(0).starts_with("it was made with the GPU Nobody's GPU, and this "), "{}", reason(0));
    assert!(reason(2).starts_with("its schedule generated the source 0000000000000000, and generates "));
    let first = &lines[1];
    assert_eq!(
        (&first["default_us"], &first["winner_us"], &first["candidates"]),
        (&503.2.into(), &480.1.into(), &2.into())
    );
    assert_eq!(first["winner"], another(&backward()).to_string());
    assert_eq!(first["what"], "adaln_row_gather backward of bf16, bf16, f32 sums, rows 9, H = 8, sm_90, S = 256..=511");
    assert!(shown["damaged"][0]["reason"].as_str().expect("a reason").contains("EOF"), "{shown}");

    let text = succeeds(&["tune", "--show", "row_gather"], cache);
    assert!(!text.contains("adaln_row_gather backward"), "{text}");
    let text = succeeds(&["tune", "--show", "adaln_row_gather"], cache);
    for words in ["adaln_row_gather backward of", "  winner  480.1 us  ", "; used here\n", "a plan of i64 below 3"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (code, text, _) = rowloom(&["tune", "--show"], cache, &[("ROWLOOM_TUNE", "off")]);
    assert!(code == Some(0) && text.starts_with("ROWLOOM_TUNE=off: none is used\n"), "{text}");
    let (_, doctor, _) = rowloom(&["doctor"], cache, &[]);
    assert!(doctor.contains("tuning      4 records, 2 used here; `rowloom tune --show` lists them\n"), "{doctor}");
    assert!(doctor.contains("kernel-x-y.json is not used: EOF"), "{doctor}");
}

/// What was refused is measured anew by the command that the refusal names.
#[test]
fn the_command_in_a_refusal_makes_the_record_that_is_missing() {
    let declared = adaln_row_gather::declaration();
    let kernel = declared.backward(&Wants::all(declared.forward()));
    let mut spec = Spec::contiguous(&kernel, DType::Bf16, IntType::I32, &[9], 8);
    sources::store_gradients_as(&kernel, &mut spec, DType::F16);
    // In a bucket whose first S is of another class.
    spec.s_class = SClass::of(S, kernel.order.block);
    assert_ne!(spec.s_class, SClass::of(256, kernel.order.block));
    let plan = Subject::Plan(sources::plan_shape(&kernel, &spec, RowId(0)));
    let backward = Subject::Kernel { kernel: (*kernel).clone(), spec };
    for subject in [plan, backward] {
        let cache = tempfile::tempdir().expect("a folder");
        let mut old = record(&subject, S, &emulation());
        old.provenance.driver = Some("1".to_owned());
        keep(cache.path(), &[old]);
        let find = || Records::over(None, Some(cache.path())).find(&subject, &emulation(), S);
        let Found::Refused(refused) = find() else { panic!("its driver is another") };
        let text = refused.to_string();
        let command = text.split('`').nth(1).expect("a command");
        let mut words: Vec<&str> = command.split(' ').skip(1).collect();
        words.extend(["--device", "emulated", "--budget", "5m"]);
        let (code, _, error) = rowloom(&words, cache.path(), &[]);
        assert_eq!(code, Some(0), "{command}: {error}");
        assert!(matches!(find(), Found::Record(_)), "{command}: {:?}", find());
    }
}

fn machine_nobody_has() -> Machine<'static> {
    Machine::new("Nobody's GPU", Some("1".to_owned()), Arch::SM_90, |_| Ok(Some((13, 5))))
}

/// Names and bytes of the files of records.
fn files(cache: &Path) -> Vec<(std::ffi::OsString, String)> {
    let entries = cache.join("tuning").read_dir().expect("a folder").map(|entry| entry.expect("an entry"));
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name(), fs::read_to_string(entry.path()).expect("a file"))).collect();
    files.sort();
    files
}

#[test]
fn a_team_shares_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let file = folder.path().join("tuned.json");
    let file = file.to_str().expect("a plain path");
    assert!(fails(&["tune", "--export", file], &from).contains("there are no records yet; `rowloom tune KERNEL`"));
    let first = record(&backward(), S, &h200((13, 5)));
    keep(&from, &[first.clone(), record(&plan(), S, &h200((13, 5))), record(&backward(), S, &emulation())]);
    assert_eq!(succeeds(&["tune", "--export", file], &from), format!("3 records are in {file}\n"));
    let text = succeeds(&["tune", "--import", file], &to);
    assert_eq!(text.lines().filter(|line| line.starts_with("new       ")).count(), 3, "{text}");
    assert!(text.contains("S = 256..=511, on NVIDIA H200\n"), "{text}");
    assert_eq!(files(&from), files(&to));
    let again: Value = serde_json::from_str(&succeeds(&["tune", "--import", file, "--json"], &to)).expect("JSON");
    assert!(again.as_array().expect("a list").iter().all(|line| line["became"] == "same"), "{again}");
    keep(&to, &[Record { winner_us: 1.0, ..first }]);
    let text = succeeds(&["tune", "--import", file], &to);
    assert_eq!(
        text.lines().filter(|line| line.starts_with("replaced  adaln_row_gather backward")).count(),
        1,
        "{text}"
    );
    assert_eq!(files(&from), files(&to));
    // Of one kernel, with the plans, which belong to none.
    assert!(succeeds(&["tune", "--export", file, "row_gather"], &from).starts_with("1 records"));

    let before = files(&to);
    for (text, words) in [
        ("", "EOF"),
        ("{\"code\": []}", "it is no file of records"),
        ("{\"format\": 9}", "its format is 9, and this rowloom reads 1"),
        ("{\"format\": 1, \"of\": \"export\", \"records\": [], \"more\": 0}", "unknown field `more`"),
        ("{\"format\": 1, \"of\": \"export\", \"records\": [{}]}", "missing field"),
    ] {
        fs::write(file, text).expect("written");
        let error = fails(&["tune", "--import", file], &to);
        assert!(error.starts_with(&format!("error: cannot import {file}: ")) && error.contains(words), "{error}");
    }
    fs::remove_file(file).expect("removed");
    assert!(fails(&["tune", "--import", file], &to).contains("there is no such file"));
    assert!(Command::new("mkfifo").arg(file).status().expect("mkfifo").success());
    assert!(fails(&["tune", "--import", file], &to).contains("it is no regular file"));
    assert_eq!(files(&to), before);
    let (code, _, error) = rowloom(&["tune", "--import", file, "--show"], &to, &[]);
    assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
    let (code, _, error) = rowloom(&["tune", "--show", "--dtype", "bf16"], &to, &[]);
    assert_eq!((code, error.lines().count()), (Some(2), 1), "{error}");
}

/// What is usable here is not given up for what is not.
#[test]
fn an_import_keeps_what_is_used_here_and_refuses_what_no_search_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to, file) = (folder.path().join("from"), folder.path().join("to"), folder.path().join("e.json"));
    let file = file.to_str().expect("a plain path");
    let own = record(&backward(), S, &emulation());
    let mut old = own.clone();
    old.provenance.source = "0".repeat(64);
    keep(&from, &[old]);
    keep(&to, &[own]);
    succeeds(&["tune", "--export", file], &from);
    let before = files(&to);
    let text = succeeds(&["tune", "--import", file], &to);
    let words =
        "f32 sums, rows 9, H = 8, sm_90, S = 256..=511, on emulated; the new one is not used here: its schedule";
    assert!(text.starts_with("kept      adaln_row_gather backward") && text.contains(words), "{text}");
    assert_eq!(files(&to), before);
    // Where there is nothing to lose it is taken.
    assert!(succeeds(&["tune", "--import", file], &folder.path().join("new")).starts_with("new "));

    let exported = fs::read_to_string(file).expect("a file");
    fs::write(file, exported.replace("\"positions\": 300", "\"positions\": 3000")).expect("written");
    let error = fails(&["tune", "--import", file], &to);
    assert!(error.contains("it is no record of a search: it was measured at S = 3000"), "{error}");
    assert_eq!(files(&to), before);
    let (_, text) = &before[0];
    let path = to.join("tuning").join(&before[0].0);
    let text = text.replace("\"date\": \"2026", "\"date\": \"\\u001b[31m2026\\n");
    fs::write(&path, text.replace("\"positions\": 300", "\"positions\": 3000")).expect("written");
    let shown = succeeds(&["tune", "--show"], &to);
    assert!(shown.contains("not used here: it is no record of a search: it was measured at S = 3000"), "{shown}");
    assert!(shown.contains("\\u{1b}[31m2026\\n-11-30") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn records_are_not_written_over_and_names_that_nothing_has_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    keep(&cache, &[record(&backward(), S, &emulation())]);
    let before = files(&cache);
    let own = cache.join("tuning").join(&before[0].0);
    let own = own.to_str().expect("a plain path");
    let error = fails(&["tune", "--export", own], &cache);
    assert!(error.contains("the records themselves lie in this folder; choose another --export"), "{error}");
    assert_eq!(files(&cache), before);
    assert!(fails(&["tune", "--export", "/none/e.json"], &cache).contains("make it or choose another --export"));
    let pipe = folder.path().join("pipe");
    let pipe = pipe.to_str().expect("a plain path");
    assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    assert!(fails(&["tune", "--export", pipe], &cache).contains("it is no regular file"));
    let file = folder.path().join("e.json");
    let file = file.to_str().expect("a plain path");
    for arguments in [&["tune", "--show", "nope"][..], &["tune", "--export", file, "nope"]] {
        let (code, text, error) = rowloom(arguments, &cache, &[]);
        assert_eq!((code, &*text, error.lines().count()), (Some(2), "", 1), "{arguments:?}: {error}");
        assert!(error.contains("there is no kernel `nope`"), "{error}");
    }
    // A word that cannot change a result stops nobody.
    for arguments in
        [&["tune", "--show"][..], &["tune", "--export", file], &["tune", "--import", file], &["cache", "stats"]]
    {
        let (code, _, error) = rowloom(arguments, &cache, &[("ROWLOOM_TUNE", "nonsense")]);
        assert_eq!(code, Some(0), "{arguments:?}: {error}");
        assert_eq!(error, "rowloom: the environment variable ROWLOOM_TUNE is `nonsense`; it must be off or cached\n");
    }
    fs::remove_dir_all(cache.join("tuning")).expect("removed");
    fs::write(cache.join("tuning"), "").expect("written");
    assert!(succeeds(&["tune", "--show"], &cache).contains("not used: it is no folder"));
}

#[test]
fn a_pack_has_the_records_and_the_code_of_their_winners() {
    let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one")).version();
    let folder = tempfile::tempdir().expect("a folder");
    let (cache, out) = (folder.path().join("cache"), folder.path().join("pack"));
    let machine = h200(nvrtc);
    let (tuned, of_plan) = (record(&backward(), S, &machine), record(&plan(), S, &machine));
    let mut changed = record(&backward(), 1000, &machine);
    changed.provenance.source = "0".repeat(64);
    let older = record(&backward(), 2000, &h200((11, 8)));
    // A kernel that is not packed.
    let Subject::Kernel { kernel, mut spec } = backward() else { unreachable!("it is a kernel's") };
    spec.hidden = 16;
    let other = record(&Subject::Kernel { kernel, spec }, S, &machine);
    keep(&cache, &[tuned.clone(), changed, older, other, of_plan.clone()]);
    let name = out.to_str().expect("a plain path");
    let pack = |positions: &str| {
        let arguments = ["pack", "adaln_row_gather", "--dtype", "bf16", "--rows", "9", "--hidden", "8"];
        let arguments = [&arguments[..], &["--arch", "sm_90", "--positions", positions, "--out", name]].concat();
        succeeds(&arguments, &cache)
    };
    assert!(!pack("600").contains("records of tuning\n"), "another bucket");
    assert!(!out.join("tuning").exists());
    let text = pack("300,1000,2000");
    assert!(text.contains("\n2 records of tuning\n"), "{text}");
    let (major, minor) = nvrtc;
    for words in [
        "S = 512..=1023 on NVIDIA H200 is left out: its schedule generates another source now\n",
        &format!(
            "S = 1024..=2047 on NVIDIA H200 is left out: it was made with NVRTC 11.8, and this is {major}.{minor}\n"
        ),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(Pack::open(&out).expect("a pack").verify().1, []);
    // A process that has nothing but the pack.
    let code = CodeCache::over(Some(&out), None, false);
    let compiler = |source: &Source| code.compiler_of(source, Arch::SM_90).map(Some);
    let here = Machine::new("NVIDIA H200", Some("580.159.04".to_owned()), Arch::SM_90, compiler);
    let records = Records::over(Some(&out), None);
    for (subject, expected) in [(backward(), tuned), (plan(), of_plan)] {
        let Found::Record(found) = records.find(&subject, &here, S) else { panic!("it is in the pack") };
        assert_eq!(*found, expected);
        let source = subject.generate(&found.winner).expect("legal");
        code.image(&source, Arch::SM_90).expect("its code is in the pack");
    }
    assert_eq!(records.all().0.len(), 2);
    assert_eq!((code.stats().pack_hits, code.stats().compiled), (2, 0));
    // The pack can grow, and its records are read by whoever may read it.
    pack("300");
    assert_eq!(Records::over(Some(&out), None).all().0.len(), 2);
}
