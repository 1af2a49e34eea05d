//! `rowloom tune` with candidates that hang, crash and lie, each in a process of its own.
//!
//! This program is the command itself, with sources that are tampered with, when a test starts it
//! so; else it runs the tests.

use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use rowloom_codegen::cuda::GenerateError;
use rowloom_codegen::{Choice, Source, Subject};
use rowloom_op_adaln as _;
use rowloom_runtime::tuning::{For, Record, Records};
use serde_json::Value;

/// What says that this program is the command.
const AS_COMMAND: &str = "ROWLOOM_TEST_FAULTS";

fn main() -> ExitCode {
    if std::env::var_os(AS_COMMAND).is_some() {
        return rowloom_cli::main_generating(tampered);
    }
    // As the test harness does it: a word chooses the tests whose names have it.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let tests: [(&str, fn()); 6] = [
        ("what_hangs_crashes_or_lies_is_told_and_left_out", what_hangs_crashes_or_lies_is_told_and_left_out),
        ("a_default_that_lies_fails_its_search_alone", a_default_that_lies_fails_its_search_alone),
        ("a_killed_run_goes_on_where_it_was", a_killed_run_goes_on_where_it_was),
        (
            "a_process_that_dies_once_over_the_default_is_forgiven",
            a_process_that_dies_once_over_the_default_is_forgiven,
        ),
        ("a_record_outlives_a_search_whose_candidates_fail", a_record_outlives_a_search_whose_candidates_fail),
        ("the_budget_ends_what_hangs", the_budget_ends_what_hangs),
    ];
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            test();
            eprintln!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// The end of the list of arguments of an entry with a row per position.
const END: &str = "rl_u64 positions) {";

/// What stands behind it in the sources of the candidates after the default, one each.
const FAULTS: [&str; 4] = [
    // It hangs.
    "rl_u64 positions) {\n    for (volatile int forever = 1; forever;) {}\n",
    // It crashes.
    "rl_u64 positions) {\n    __builtin_trap();\n",
    // It writes half, and would be right if the last result were still there.
    "rl_u64 given) {\n    const rl_u64 positions = given / 2;\n",
    // It writes one element wrong.
    "rl_u64 positions) {\n    ONE_ELEMENT",
];

/// Says that the default of checked calls writes half.
const LYING_DEFAULT: &str = "ROWLOOM_TEST_LYING_DEFAULT";

/// What writes.
const STORE: &str = "rl_store";

/// A file that counts how often the source of a default is made: the third time is its comparison,
/// and the process dies.
const DIES: &str = "ROWLOOM_TEST_DIES_ONCE";

/// A folder that counts how often the source of each candidate is made: the first two times, when it
/// is to be compiled, the process dies, but for the default.
const ALL_DIE: &str = "ROWLOOM_TEST_ALL_DIE";

/// How often this was called with this file, this time too.
fn times(path: &Path) -> usize {
    let mut times = std::fs::read(path).unwrap_or_default();
    times.push(0);
    std::fs::write(path, &times).expect("written");
    times.len()
}

fn tampered(subject: &Subject, choice: &Choice) -> Result<Source, GenerateError> {
    let mut source = subject.generate(choice)?;
    if let Some(folder) = std::env::var_os(ALL_DIE) {
        let path = Path::new(&folder).join(source.hash().to_string());
        if subject.default_choice() != Some(*choice) && times(&path) <= 2 {
            std::process::abort();
        }
        return Ok(source);
    }
    if let Some(path) = std::env::var_os(DIES) {
        if subject.default_choice() == Some(*choice) && times(Path::new(&path)) == 3 {
            std::process::abort();
        }
        return Ok(source);
    }
    if std::env::var_os(LYING_DEFAULT).is_some() {
        if matches!(subject, Subject::Kernel { spec, .. } if !spec.planned) {
            source.body = source.body.replace(END, FAULTS[2]);
        }
        return Ok(source);
    }
    let legal = subject.space().into_iter().filter(|choice| subject.generate(choice).is_ok());
    let default = subject.default_choice();
    let place = legal.filter(|other| Some(*other) != default).position(|other| other == *choice);
    let Some(fault) = place.and_then(|place| FAULTS.get(place)) else { return Ok(source) };
    assert!(source.body.contains(END) && source.body.contains(STORE), "{}", source.body);
    if fault.ends_with("ONE_ELEMENT") {
        // One bit of one element of position 7, before it is stored.
        let at = source.body.rfind(STORE).unwrap_or_default();
        let value = source.body[at..].split([',', ')']).nth(1).unwrap_or_default().trim().to_owned();
        let (before, store) = source.body.split_at(at);
        let store = store.replacen(&value, "wrong", 1);
        let lie = format!("auto wrong = {value}; if (position == 7 && column == 16) wrong.lane[3] = wrong.lane[2]; ");
        source.body = format!("{before}{{ {lie}{store}");
        let line = source.body.rfind("wrong);").unwrap_or_default() + "wrong);".len();
        source.body.insert_str(line, " }");
    } else {
        source.body = source.body.replace(END, fault);
    }
    Ok(source)
}

fn tune(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["tune", "row_gather", "--dtype", "bf16", "--rows", "9", "--hidden", "1024", "--positions", "40"])
        .args(["--only", "forward", "--device", "emulated"])
        .args(if more.contains(&"--budget") { &[][..] } else { &["--budget", "5m"] })
        .args(more)
        .env(AS_COMMAND, "1")
        .env("ROWLOOM_CACHE_DIR", folder.join("cache"))
        .env_remove("ROWLOOM_TUNE")
        .stdin(Stdio::null());
    command
}

fn ran(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    (output, error)
}

fn searches(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("cache/searches")).into_iter().flatten();
    entries.map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default()).collect()
}

fn what_hangs_crashes_or_lies_is_told_and_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("t.json");
    let start = Instant::now();
    let (_, error) = ran(tune(folder.path(), &["--out"]).arg(&out));
    let found: Value = serde_json::from_slice(&std::fs::read(&out).expect("a file")).expect("JSON");
    for result in found["results"].as_array().expect("a list") {
        assert_eq!(result["complete"], true);
        let record = &result["record"];
        let winner = &record["winner"];
        let others = others(record);
        let text = |at: usize, key: &str| others[at][key].as_str().unwrap_or_default().to_owned();
        assert!(text(0, "failed").contains("it did not end in"), "{:?}", others[0]);
        assert!(text(1, "failed").contains("signal"), "{:?}", others[1]);
        assert!(text(2, "differs").starts_with("out[0], row 0, column 0"), "{:?}", others[2]);
        assert!(text(3, "differs").starts_with("out[0], row 7, column 19"), "{:?}", others[3]);
        for at in [2, 3] {
            assert_eq!(others[at]["bit_equal"], false);
        }
        assert!(others.len() > FAULTS.len(), "some must be left");
        for other in &others[FAULTS.len()..] {
            assert_eq!(other["bit_equal"], true, "{other}");
        }
        assert!(others[..FAULTS.len()].iter().all(|other| other["schedule"] != *winner), "{winner}");
    }
    assert_eq!(error.matches("which is a fault of rowloom").count(), 4, "{error}");
    assert_eq!(searches(folder.path()), Vec::<String>::new(), "a search that is over leaves nothing behind");
    assert!(start.elapsed() < Duration::from_secs(240), "{:?}", start.elapsed());
}

fn a_process_that_dies_once_over_the_default_is_forgiven() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = folder.path().join("count");
    let (output, error) = ran(tune(folder.path(), &["--json"]).env(DIES, &count));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for result in found["results"].as_array().expect("a list") {
        assert_eq!(result["complete"], true, "{result}");
    }
    assert_eq!(error, "");
    assert!(std::fs::read(&count).expect("a file").len() > 3, "it came to that");
}

fn a_record_outlives_a_search_whose_candidates_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dying, sizes) = (folder.path().join("dying"), ["--only", "plan", "--rows", "9", "--positions", "40"]);
    std::fs::create_dir(&dying).expect("made");
    let plans = || {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            "tune",
            "row_scatter_sum",
            "--dtype",
            "bf16",
            "--device",
            "emulated",
            "--budget",
            "5m",
            "--json",
        ]);
        command.args(sizes).env(AS_COMMAND, "1").env("ROWLOOM_CACHE_DIR", folder.path().join("cache"));
        command.env(ALL_DIE, &dying).env_remove("ROWLOOM_TUNE").stdin(Stdio::null());
        command
    };
    let tuned = |found: &Output| -> Value { serde_json::from_slice(&found.stdout).expect("JSON") };
    let (first, error) = ran(&mut plans());
    assert_eq!(error, "");
    let mut record: Record = serde_json::from_value(tuned(&first)["results"][0]["record"].clone()).expect("a record");
    assert_eq!(record.winner, record.default, "all others died");
    // Once another one had won.
    let For::Plan { shape, .. } = &record.key else { panic!("a plan's") };
    let subject = Subject::Plan(shape.clone());
    let legal = |choice: &Choice| *choice != record.default && subject.generate(choice).is_ok();
    record.winner = subject.space().into_iter().find(legal).expect("there are others");
    record.provenance.source = subject.generate(&record.winner).expect("legal").hash().to_string();
    let records = Records::over(None, Some(&folder.path().join("cache")));
    records.add(&record).expect("kept");

    std::fs::remove_dir_all(&dying).and_then(|()| std::fs::create_dir(&dying)).expect("emptied");
    let (second, error) = ran(&mut plans());
    let found = &tuned(&second)["results"][0];
    assert_eq!((&found["record"]["winner"], &found["complete"]), (&found["record"]["default"], &true.into()));
    let why = found["earlier_stays"].as_str().expect("a reason");
    assert!(why.ends_with("its winner failed in this search") && error.contains(why), "{why}: {error}");
    let kept = records.kept(&record.key, "emulated").expect("it is there");
    assert_eq!(*kept, record);
}

fn the_budget_ends_what_hangs() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = Instant::now();
    // A candidate may hang for five seconds.
    let (output, error) = ran(&mut tune(folder.path(), &["--json", "--budget", "4s"]));
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for result in found["results"].as_array().expect("a list") {
        assert_eq!((&result["complete"], &result["searched"]), (&false.into(), &true.into()), "{result}");
        let candidates = result["candidates"].as_array().expect("a list, for there is no record");
        assert!(candidates.len() > FAULTS.len(), "{candidates:?}");
    }
    assert_eq!(error.matches("no record is kept, for the budget ran out").count(), 2, "{error}");
    assert_eq!(searches(folder.path()).len(), 2, "what was learnt is for the next run");
}

/// The legal candidates of a record but for the default.
fn others(record: &Value) -> Vec<&Value> {
    let candidates = record["candidates"].as_array().expect("a list").iter();
    candidates.filter(|other| other["schedule"] != record["default"] && other["illegal"].is_null()).collect()
}

fn a_default_that_lies_fails_its_search_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tune(folder.path(), &["--json"]).env(LYING_DEFAULT, "1").output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("not the CPU executor's bytes") && error.contains("1 of 2 searches"), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["results"][0]["complete"], true, "{found}");
    assert!(found["results"][1]["failed"].as_str().is_some_and(|why| why.contains("does not run as it must")));
}

fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut killed = tune(folder.path(), &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let start = Instant::now();
    // While the one that hangs is under way.
    let hangs = |text: &str| {
        text.lines().last().is_some_and(|line| line.starts_with("{\"begun\"")) && text.contains("\"equal\"")
    };
    while !searches(folder.path()).iter().any(|text| hangs(text)) {
        assert!(start.elapsed() < Duration::from_secs(120), "{:?}", searches(folder.path()));
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().expect("killed");
    killed.wait().expect("ended");
    let before = searches(folder.path());
    let (output, error) = ran(tune(folder.path(), &["--json"]).stdout(Stdio::piped()));
    assert!(error.contains("of an interrupted run"), "{error}\n{before:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = found["results"].as_array().expect("a list");
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["complete"], true, "{result}");
        // The one that was under way when the command died was tried once more.
        let (hung, why) = (&others(&result["record"])[0], "it did not end in 5.0 s and was killed");
        assert_eq!(hung["failed"], why, "{hung}");
    }
    assert_eq!(searches(folder.path()), Vec::<String>::new());
}
