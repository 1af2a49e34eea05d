//! The report at small sizes: the published schema, the published counts, and
//! what must hold of rowloom on any machine.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

fn report(kernel: &str, more: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r.json");
    let output = Command::new(cargo_bin!("rowloom"))
        .args(["report", kernel, "--quick", "--hidden", "24"])
        .args(more)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(error, "", "no progress bar where nobody looks");
    let text = std::fs::read_to_string(&out).expect("a file");
    let names = ["r.json", "r-speed.png", "r-speed.svg", "r-accuracy.png", "r-accuracy.svg"];
    assert_eq!(folder.path().read_dir().expect("a folder").count(), names.len(), "the report and its figures");
    for name in &names[1..] {
        let bytes = std::fs::read(folder.path().join(name)).expect(name);
        let magic: &[u8] = if name.ends_with("png") { b"\x89PNG\r\n\x1a\n" } else { b"<svg " };
        assert!(bytes.starts_with(magic), "{name}");
    }
    (serde_json::from_str(&text).expect("JSON"), String::from_utf8(output.stdout).expect("text"))
}

/// Whether every key of `published` is in `ours`. Batches and sizes are keys by
/// their numbers, implementations by their names; any of ours stands for them.
fn has_keys_of(published: &Value, ours: &Value, path: &str) {
    match published {
        Value::Object(map) => {
            let ours = ours.as_object().unwrap_or_else(|| panic!("{path} is a map"));
            for (key, value) in map {
                let stands_for_any = ["/results/plain", "/all_rows", "/accuracy_latency"];
                if stands_for_any.iter().any(|end| path.ends_with(end)) {
                    assert!(!ours.is_empty(), "{path} is empty");
                    for (ours_key, ours) in ours {
                        has_keys_of(value, ours, &format!("{path}/{ours_key}"));
                    }
                } else {
                    let ours = ours.get(key).unwrap_or_else(|| panic!("{path} has no {key}"));
                    has_keys_of(value, ours, &format!("{path}/{key}"));
                }
            }
        }
        Value::Array(_) => assert!(ours.is_array() || ours.is_null(), "{path} is a list"),
        Value::Bool(_) => assert!(ours.is_boolean() || ours.is_null(), "{path} is yes or no"),
        Value::Number(_) => assert!(ours.is_number(), "{path} is a number"),
        Value::String(_) | Value::Null => {}
    }
}

#[test]
fn the_published_op_in_the_published_schema() {
    let (report, summary) = report("adaln_row_gather", &[]);
    let published = include_str!("../data/adaln_row_gather_b200.json");
    has_keys_of(&serde_json::from_str(published).expect("JSON"), &report, "");
    assert_eq!(report["kind"], "h3_prior_art");
    assert_eq!(report["rfc"], "RL-Align/RL-Kernel#420");
    assert_eq!(report["op"], "adaln_row_gather");
    assert_eq!(report["quick"], true);
    assert!(report["rl_kernel_commit"].is_null());

    let results = report["results"]["plain"].as_object().expect("a map");
    assert!(results.keys().eq(["rowloom", "rowloom_f64", "index_select"]));
    for (name, result) in results {
        let checks = &result["batch_invariance"];
        assert_eq!(checks["batch_size_sweep"]["comparisons"], 1176, "{name}");
        assert_eq!(checks["full_vs_sub_batches"]["sub_batches"], 594, "{name}");
        assert_eq!(checks["all_rows"]["17"]["rows"], 51, "{name}");
        assert_eq!(checks["all_rows"]["64"]["rows"], 192, "{name}");
        assert_eq!(checks["table_gradient"]["isolated_rows"], 9, "{name}");
        assert_eq!(checks["table_gradient"]["other_rows_permuted"], 9, "{name}");
        assert_eq!(checks["table_gradient"]["repeats"], 100, "{name}");
        for positions in ["257", "4097"] {
            let at = &result["accuracy_latency"][positions];
            assert_eq!(at["fwd_rel_err"], 0.0, "{name}");
            assert!(at["fwd_us"].as_f64().expect("a time") > 0.0, "{name}");
            assert!(at["fwd_bwd_us"].as_f64().expect("a time") > 0.0, "{name}");
        }
    }
    for name in ["rowloom", "rowloom_f64"] {
        is_invariant(&results[name]);
        assert!(results[name]["accuracy_latency"]["4097"]["plan_us"].as_f64().expect("a time") > 0.0);
    }
    let at = |name: &str, key: &str| results[name]["accuracy_latency"]["4097"][key].clone();
    let error = |name: &str| at(name, "grad_rel_err")["table"].as_f64().expect("an error");
    assert_eq!(at("rowloom_f64", "correctly_rounded"), 1.0);
    assert!(error("rowloom_f64") <= error("rowloom"));
    assert!(error("index_select") >= 15.0 * error("rowloom"), "{summary}");

    assert!(report["environment"]["ceilings"]["4097"]["copy_gb_s"].as_f64().expect("a speed") > 0.0);
    for line in ["batch invariant", "S = 4097: grad_rel_err", "rl_kernel, published (NVIDIA B200)"] {
        assert!(summary.contains(line), "{summary}");
    }
}

fn is_invariant(result: &Value) {
    let checks = &result["batch_invariance"];
    assert_eq!(checks["batch_invariant"], true, "{checks}");
    assert_eq!(checks["params_repeatable"], true);
    for key in ["isolated_rows", "other_rows_permuted", "schedules", "repeats"] {
        assert_eq!(checks["table_gradient"][format!("{key}_differ")], 0, "{key}");
    }
    assert_eq!(checks["batch_size_sweep"]["differ"], 0);
    assert_eq!(checks["batch_size_sweep"]["first_failures"], serde_json::json!([]));
}

#[test]
fn other_kernels_types_and_layouts() {
    for (kernel, more) in [
        ("row_gather", &["--dtype", "f32", "--positions", "300", "--layout", "ref2va:3/8"][..]),
        ("row_scatter_sum", &["--dtype", "f16", "--positions", "513,257", "--rows", "7", "--layout", "t2va-15s"]),
    ] {
        let (report, _) = report(kernel, more);
        assert_eq!(report["kind"], "rowloom_report");
        assert_eq!(report["environment"]["layout"], more[more.len() - 1]);
        is_invariant(&report["results"]["plain"]["rowloom"]);
        is_invariant(&report["results"]["plain"]["rowloom_f64"]);
        // Both have sums over positions in one direction, and rows per position in the other.
        let f64_order = &report["results"]["plain"]["rowloom_f64"];
        for (_, at) in f64_order["accuracy_latency"].as_object().expect("a map") {
            assert!(at["correctly_rounded"].as_f64().expect("a share") >= 0.999, "{at}");
        }
    }
}
