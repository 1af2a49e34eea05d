//! What a reader must know of `index_select` in a report: it is rowloom's own, in a framework's place.

use serde_json::Value;

/// Its key in a report.
pub const NAME: &str = "index_select";

/// An implementation as tables and figures call it.
pub fn shown(implementation: &str) -> String {
    match implementation {
        NAME => format!("{NAME} (stand-in)"),
        other => other.to_owned(),
    }
}

/// What it is, in lines, for a report that has measured it.
pub fn note(report: &Value) -> Vec<String> {
    let result = &report["results"]["plain"][NAME];
    if !result.is_object() || result.get("unavailable").is_some() {
        return Vec::new();
    }
    let rounding = match report["environment"]["gpu"].is_string() {
        true => "by plain kernels, with atomic additions that round each",
        false => "which rounds after every addition on a CPU too, as a GPU's atomics do",
    };
    let mut lines = vec![format!("{} is rowloom's own, op by op as a framework works, {rounding}.", shown(NAME))];
    let op = &report["op"];
    lines.push(match op.as_str() {
        Some(op @ "adaln_row_gather") => {
            format!("PyTorch is another thing: `python -m rowloom.prior_art --op {op}` measures it.")
        }
        Some(_) | None => "PyTorch is another thing, and is not measured here.".to_owned(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_said_of_what_was_measured_and_of_nothing_else() {
        let report = |op: &str, gpu: Value, result: Value| json!({"op": op, "environment": {"gpu": gpu}, "results": {"plain": {"rowloom": {}, NAME: result}}});
        let on_cpu = note(&report("adaln_row_gather", Value::Null, json!({"source": "op by op"}))).join(" ");
        for words in
            ["index_select (stand-in) is rowloom's own", "as a GPU's atomics do", "rowloom.prior_art --op adaln"]
        {
            assert!(on_cpu.contains(words), "{words}: {on_cpu}");
        }
        let on_gpu = note(&report("row_gather", "NVIDIA H200".into(), json!({}))).join(" ");
        assert!(!on_gpu.contains("CPU") && !on_gpu.contains("prior_art"), "{on_gpu}");
        assert!(note(&report("row_gather", Value::Null, json!({"unavailable": "no GPU"}))).is_empty());
        assert!(note(&json!({"op": "adaln_row_gather", "results": {"plain": {"diffusers": {}}}})).is_empty());
        assert_eq!(shown("rowloom"), "rowloom");
    }
}
