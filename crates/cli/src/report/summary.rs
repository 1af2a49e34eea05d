//! The report as a table for people, the published figures beside it.

use serde_json::Value;

use super::published::Published;
use super::stand_in;
use super::table::{CHECKS, aligned, lines_of_size, number_text, sizes};

/// The table of a finished report.
pub fn summary(report: &Value, published: Option<&Published>) -> String {
    let ours = report["results"]["plain"].as_object().into_iter().flatten();
    let mut columns: Vec<(String, &Value)> = ours.map(|(name, result)| (stand_in::shown(name), result)).collect();
    if let Some(published) = published {
        columns.extend(published.implementations());
    }
    let header = std::iter::once(String::new()).chain(columns.iter().map(|(name, _)| name.clone()));
    let mut table = vec![header.collect::<Vec<_>>()];
    for (name, cell) in CHECKS {
        table.push(row(name.to_owned(), &columns, cell));
    }
    for positions in sizes(columns.iter().map(|(_, result)| *result)) {
        for line in lines_of_size() {
            let cell = |result: &Value| line.value(result, &positions);
            if columns.iter().any(|(_, result)| !cell(result).is_null()) {
                table.push(row(format!("S = {positions}: {}", line.name), &columns, cell));
            }
        }
    }
    let notes: String = stand_in::note(report).into_iter().map(|line| line + "\n").collect();
    aligned(&table) + &notes
}

fn row(name: String, columns: &[(String, &Value)], cell: impl Fn(&Value) -> Value) -> Vec<String> {
    let text = |result: &Value| match cell(result) {
        _ if result.get("unavailable").is_some() => "unavailable".to_owned(),
        Value::Bool(value) => if value { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number_text(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => text,
        Value::Null | Value::Array(_) | Value::Object(_) => "-".to_owned(),
    };
    std::iter::once(name).chain(columns.iter().map(|(_, result)| text(result))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_stand_beside_ours() {
        let report = serde_json::json!({"results": {"plain": {
            "rowloom": {"batch_invariance": {"batch_invariant": true}, "accuracy_latency": {
                "257": {"fwd_rel_err": 0.0}, "4097": {"fwd_rel_err": 0.0, "grad_rel_err": {"table": 0.0025}}}},
            "index_select": {"unavailable": "no GPU"},
        }}});
        let published = Published::of("adaln_row_gather");
        let text = summary(&report, published.as_ref());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{text}"));
        assert!(line("batch invariant").split_whitespace().eq([
            "batch",
            "invariant",
            "yes",
            "unavailable",
            "no",
            "yes"
        ]));
        assert!(line("S = 4097: grad_rel_err").ends_with("6.04e-2                             2.51e-3"), "{text}");
        assert!(line("sweep, differ").contains("0 of 2256"));
        assert!(line("S = 257: fwd_rel_err").contains('0'));
    }
}
