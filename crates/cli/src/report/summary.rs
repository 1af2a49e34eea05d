//! The report as a table for people, the published figures beside it.

use serde_json::Value;

use super::published::Published;

/// What a line shows of an implementation's result.
type Cell = fn(&Value) -> Value;

/// The table of a finished report.
pub fn summary(report: &Value, published: Option<&Published>) -> String {
    let ours = report["results"]["plain"].as_object().into_iter().flatten();
    let mut columns: Vec<(String, &Value)> = ours.map(|(name, result)| (name.clone(), result)).collect();
    if let Some(published) = published {
        columns.extend(published.implementations());
    }
    let mut table = vec![header(&columns)];
    let invariance: [(&str, Cell); 7] = [
        ("batch invariant", |result| result["batch_invariance"]["batch_invariant"].clone()),
        ("sums repeatable", |result| result["batch_invariance"]["params_repeatable"].clone()),
        ("positions alone, differ", |result| all_rows(&result["batch_invariance"]["all_rows"])),
        ("sub-batches, differ", |result| {
            let check = &result["batch_invariance"]["full_vs_sub_batches"];
            of(sum(&check["fwd_differ"], &check["rowgrad_differ"]), &check["sub_batches"])
        }),
        ("sweep, differ", |result| {
            let check = &result["batch_invariance"]["batch_size_sweep"];
            of(check["differ"].as_u64(), &check["comparisons"])
        }),
        ("sums by rows, schedules, differ", |result| {
            let check = &result["batch_invariance"]["table_gradient"];
            let keys = ["isolated_rows", "other_rows_permuted", "schedules"];
            let total: Option<u64> = keys.iter().map(|key| check[*key].as_u64()).sum();
            let differ: Option<u64> = keys.iter().map(|key| check[format!("{key}_differ")].as_u64()).sum();
            of(differ, &total.into())
        }),
        ("sums repeated, differ", |result| {
            let check = &result["batch_invariance"]["table_gradient"];
            of(check["repeats_differ"].as_u64(), &check["repeats"])
        }),
    ];
    for (name, cell) in invariance {
        table.push(row(name.to_owned(), &columns, cell));
    }
    for positions in sizes(&columns) {
        let numbers: [(&str, &str); 8] = [
            ("fwd_rel_err", "/fwd_rel_err"),
            ("grad_rel_err", "/grad_rel_err"),
            ("correctly_rounded", "/correctly_rounded"),
            ("fwd_us", "/fwd_us"),
            ("fwd_planned_us", "/fwd_planned_us"),
            ("bwd_planned_us", "/bwd_planned_us"),
            ("plan_us", "/plan_us"),
            ("fwd_bwd_us", "/fwd_bwd_us"),
        ];
        for (name, pointer) in numbers {
            let cell = |result: &Value| {
                let value = result["accuracy_latency"][&positions].pointer(pointer).cloned();
                match value {
                    Some(Value::Object(by_input)) => largest(&by_input),
                    Some(value) => value,
                    None => Value::Null,
                }
            };
            if columns.iter().any(|(_, result)| !cell(result).is_null()) {
                table.push(row(format!("S = {positions}: {name}"), &columns, cell));
            }
        }
    }
    aligned(&table)
}

/// Every S of a report, smallest first.
pub fn sizes_of(report: &Value) -> Vec<String> {
    let results = report["results"]["plain"].as_object().into_iter().flatten();
    sizes(&results.map(|(name, result)| (name.clone(), result)).collect::<Vec<_>>())
}

/// A time with a unit that leaves few digits.
pub fn time_text(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1} µs"),
        us if us < 10_000.0 => format!("{us:.0} µs"),
        us => format!("{:.1} ms", us / 1e3),
    }
}

fn header(columns: &[(String, &Value)]) -> Vec<String> {
    std::iter::once(String::new()).chain(columns.iter().map(|(name, _)| name.clone())).collect()
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

fn number_text(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.1 => format!("{number:.2e}"),
        small if small <= 1.0 => format!("{number:.6}"),
        _ => format!("{number:.1}"),
    }
}

fn of(part: Option<u64>, whole: &Value) -> Value {
    match (part, whole.as_u64()) {
        (Some(part), Some(whole)) => Value::String(format!("{part} of {whole}")),
        (Some(_) | None, _) => Value::Null,
    }
}

fn sum(left: &Value, right: &Value) -> Option<u64> {
    Some(left.as_u64()? + right.as_u64()?)
}

fn all_rows(check: &Value) -> Value {
    let batches = || check.as_object().into_iter().flatten().map(|(_, batch)| batch);
    let rows: Option<u64> = batches().map(|batch| batch["rows"].as_u64()).sum();
    let differ = batches().map(|batch| sum(&batch["fwd_differ"], &batch["rowgrad_differ"])).sum();
    if check.is_object() { of(differ, &rows.into()) } else { Value::Null }
}

fn largest(by_input: &serde_json::Map<String, Value>) -> Value {
    let numbers = by_input.values().filter_map(Value::as_f64);
    numbers.reduce(f64::max).map_or(Value::Null, Value::from)
}

/// Every S that some column has, smallest first.
pub fn sizes(columns: &[(String, &Value)]) -> Vec<String> {
    let keys = columns.iter().flat_map(|(_, result)| result["accuracy_latency"].as_object().into_iter().flatten());
    let mut sizes: Vec<String> = keys.map(|(positions, _)| positions.clone()).collect();
    sizes.sort_by_key(|positions| positions.parse::<u64>().unwrap_or(u64::MAX));
    sizes.dedup();
    sizes
}

fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
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
