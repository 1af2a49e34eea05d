//! `rowloom tune` from its arguments to its record, its table, its file and its figure.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

fn tune(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(cargo_bin!("rowloom"))
        .arg("tune")
        .args(arguments)
        .env("ROWLOOM_CACHE_DIR", folder.join("cache"))
        .env_remove("ROWLOOM_TUNE")
        .output()
        .expect("the command starts")
}

const SIZES: [&str; 8] = ["--dtype", "bf16", "--rows", "9", "--hidden", "8", "--positions", "300"];

#[test]
fn a_search_leaves_a_record_a_table_a_file_and_a_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("t.json");
    let mut arguments = vec!["adaln_row_gather", "--device", "emulated", "--only", "forward,plan", "--budget", "5m"];
    arguments.extend(SIZES);
    arguments.extend(["--out", out.to_str().expect("text")]);
    let output = tune(folder.path(), &arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    let table = String::from_utf8(output.stdout).expect("text");
    let given = "plan of rows below 9";
    for words in ["on emulated", "forward, planned", "forward, checked", "plan of timestep * 3 + modality", given] {
        assert!(table.contains(words), "{table}");
    }
    let found: Value = serde_json::from_slice(&std::fs::read(&out).expect("a file")).expect("JSON");
    assert_eq!((&found["op"], &found["dtype"]), (&"adaln_row_gather".into(), &"bf16".into()));
    assert_eq!(found["ceilings"], serde_json::json!({"300": null}));
    let results = found["results"].as_array().expect("a list");
    assert_eq!(results.len(), 4);
    for result in results {
        let record: rowloom_runtime::tuning::Record =
            serde_json::from_value(result["record"].clone()).expect("a record as the library reads it");
        assert!(record.winner_us <= record.default_us && record.default_us.is_finite());
        assert!(record.candidates.len() > 1 && record.provenance.product == "emulated");
        assert_eq!(result["complete"], true);
    }
    for (name, magic) in [("t-candidates.png", &b"\x89PNG"[..]), ("t-candidates.svg", b"<svg ")] {
        assert!(std::fs::read(folder.path().join(name)).expect(name).starts_with(magic), "{name}");
    }
    let kept = std::fs::read_dir(folder.path().join("cache/tuning")).expect("records").count();
    assert!(kept >= 2, "a file for the kernel and one for the plan");
}

#[test]
fn what_makes_no_sense_is_said_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |more: &[&'static str]| [&["adaln_row_gather"][..], &SIZES, more].concat();
    for (arguments, code, words) in [
        (vec![], 2, "one kernel at a time"),
        (vec!["adaln_row_gather", "row_gather"], 2, "one kernel at a time"),
        (vec!["adaln"], 2, "did you mean"),
        (vec!["adaln_row_gather"], 2, "--dtype"),
        (vec!["adaln_row_gather", "--dtype", "bf16"], 2, "--positions"),
        (vec!["adaln_row_gather", "--dtype", "bf16", "--positions", "4"], 2, "--rows"),
        (vec!["adaln_row_gather", "--dtype", "bf16", "--positions", "4", "--rows", "8"], 2, "multiple"),
        (with(&["--device", "cpu"]), 2, "the CPU has no schedules"),
        (with(&["--device", "gpu"]), 2, "gpu"),
        (with(&["--device", "cuda:x"]), 2, "cuda:x"),
        (with(&["--device", "cuda:+1"]), 2, "cuda:+1"),
        (with(&["--budget", "30"]), 2, "write 30s"),
        (with(&["--layout", "random"]), 2, "random"),
        (with(&["--device", "emulated", "--out", "/none/t.json"]), 1, "there is no such folder"),
        (with(&["--device", "cuda:99"]), 1, ""),
    ] {
        let output = tune(folder.path(), &arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(words) && error.lines().count() == 1, "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    }
    assert!(!folder.path().join("cache").exists(), "nothing was begun");
}

#[test]
fn a_budget_that_is_no_time_at_all_keeps_the_default_and_no_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = vec!["row_gather", "--device", "emulated", "--only", "plan", "--budget", "1ms", "--json"];
    arguments.extend(SIZES);
    let output = tune(folder.path(), &arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.contains("no record is kept, for the budget ran out"), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["results"][0]["complete"], false);
    assert_eq!(found["results"][0]["searched"], false);
    assert!(!folder.path().join("cache/tuning").exists());
}

/// What was measured is shown and written although it cannot be kept.
#[test]
fn records_that_cannot_be_kept_do_not_end_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("t.json");
    let cache = folder.path().join("cache");
    std::fs::write(&cache, "").expect("written");
    for (cache, words) in [(cache.to_str().expect("text"), "cache/tuning: "), ("", "the cache is turned off")] {
        let output = Command::new(cargo_bin!("rowloom"))
            .args(["tune", "row_scatter_sum", "--device", "emulated", "--only", "plan", "--budget", "5m"])
            .args(SIZES)
            .args(["--positions", "40", "--layout", "interleaved,interleaved", "--out"])
            .arg(&out)
            .env("ROWLOOM_CACHE_DIR", cache)
            .env_remove("ROWLOOM_TUNE")
            .output()
            .expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let told = "error: the records of plan of row, S = 40; plan of row, S = 300 are not kept: ";
        assert!(error.starts_with(told) && error.contains(words) && error.lines().count() == 1, "{error}");
        assert_eq!(String::from_utf8(output.stdout).expect("text").matches("plan of row").count(), 2);
        let found: Value = serde_json::from_slice(&std::fs::read(&out).expect("a file")).expect("JSON");
        assert_eq!(found["layouts"], serde_json::json!(["interleaved"]));
        assert!(found["results"][1]["record"]["winner_us"].is_f64(), "{found}");
        std::fs::remove_file(&out).expect("removed");
    }
}
