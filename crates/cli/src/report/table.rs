//! The lines in which results stand side by side.

use serde_json::Value;

use super::number::Number;

/// What a line shows of an implementation's result.
pub type Check = fn(&Value) -> Value;

/// The checks of batch invariance, as `differ of compared`.
pub const CHECKS: [(&str, Check); 9] = [
    ("batch invariant", |result| result["batch_invariance"]["batch_invariant"].clone()),
    ("sums repeatable", |result| result["batch_invariance"]["params_repeatable"].clone()),
    ("positions alone, differ", |result| all_rows(&result["batch_invariance"]["all_rows"])),
    ("sub-batches, differ", |result| {
        let check = &result["batch_invariance"]["full_vs_sub_batches"];
        of(sum([&check["fwd_differ"], &check["rowgrad_differ"]]), &check["sub_batches"])
    }),
    ("sweep, differ", |result| {
        let check = &result["batch_invariance"]["batch_size_sweep"];
        of(check["differ"].as_u64(), &check["comparisons"])
    }),
    ("rows alone, differ", |result| of_sums(result, "isolated_rows")),
    ("other rows permuted, differ", |result| of_sums(result, "other_rows_permuted")),
    // Null where they are not visible, as from Python, and 0 of what has none.
    ("other schedules, differ", |result| {
        let differ = of_sums(result, "schedules");
        if differ == "0 of 0" { Value::Null } else { differ }
    }),
    ("sums repeated, differ", |result| of_sums(result, "repeats")),
];

fn of_sums(result: &Value, key: &str) -> Value {
    let check = &result["batch_invariance"]["table_gradient"];
    of(check[format!("{key}_differ")].as_u64(), &check[key])
}

/// A number that is measured at each S.
pub struct Line {
    /// Its key.
    pub name: &'static str,
    /// Whether it is a time of a device.
    pub is_time: bool,
    /// The direction whose ceiling a time is held against.
    pub direction: Option<&'static str>,
}

/// All of them.
pub fn lines_of_size() -> [Line; 9] {
    let number = |name| Line { name, is_time: false, direction: None };
    let time = |name, direction| Line { name, is_time: true, direction };
    [
        number("fwd_rel_err"),
        number("grad_rel_err"),
        number("correctly_rounded"),
        time("fwd_us", Some("forward")),
        time("fwd_planned_us", Some("forward")),
        time("bwd_us", Some("backward")),
        time("bwd_planned_us", Some("backward")),
        time("plan_us", None),
        time("fwd_bwd_us", None),
    ]
}

impl Line {
    /// Of one result; the largest where there is one for each input.
    pub fn value(&self, result: &Value, positions: &str) -> Value {
        let value = &result["accuracy_latency"][positions][self.name];
        let Some(by_input) = value.as_object() else { return value.clone() };
        Number::largest(by_input.values().filter_map(Number::read)).map_or(Value::Null, |error| Number(error).into())
    }
}

fn of(part: Option<u64>, whole: &Value) -> Value {
    match (part, whole.as_u64()) {
        (Some(part), Some(whole)) => Value::String(format!("{part} of {whole}")),
        (Some(_) | None, _) => Value::Null,
    }
}

/// Of counts; nothing where one is none. A file may hold any: none wraps.
fn sum<'v>(counts: impl IntoIterator<Item = &'v Value>) -> Option<u64> {
    counts.into_iter().try_fold(0, |sum: u64, count| Some(sum.saturating_add(count.as_u64()?)))
}

fn all_rows(check: &Value) -> Value {
    let batches = || check.as_object().into_iter().flatten().map(|(_, batch)| batch);
    let rows = sum(batches().map(|batch| &batch["rows"]));
    let differ = sum(batches().flat_map(|batch| [&batch["fwd_differ"], &batch["rowgrad_differ"]]));
    if check.is_object() { of(differ, &rows.into()) } else { Value::Null }
}

/// Every S that some result has, smallest first.
pub fn sizes<'r>(results: impl Iterator<Item = &'r Value>) -> Vec<String> {
    let keys = results.flat_map(|result| result["accuracy_latency"].as_object().into_iter().flatten());
    let mut sizes: Vec<String> = keys.map(|(positions, _)| positions.clone()).collect();
    sizes.sort_by_key(|positions| positions.parse::<u64>().unwrap_or(u64::MAX));
    sizes.dedup();
    sizes
}

/// A number of any size with few digits.
pub fn number_text(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.1 => format!("{number:.2e}"),
        small if small <= 1.0 => format!("{number:.6}"),
        _ => format!("{number:.1}"),
    }
}

/// A time with a unit that leaves few digits.
pub fn time_text(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.1} µs"),
        us if us < 10_000.0 => format!("{us:.0} µs"),
        us => format!("{:.1} ms", us / 1e3),
    }
}

/// With control characters spelt out: a terminal would obey them.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if letter.is_control() { escaped.extend(letter.escape_default()) } else { escaped.push(letter) }
    }
    escaped
}

/// Columns of equal width, the first one to the left; control characters spelt out.
pub fn aligned(table: &[Vec<String>]) -> String {
    let table: Vec<Vec<String>> = table.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &table {
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
    fn schedules_that_there_are_not_are_not_counted_as_none_that_differ() {
        let (_, check) = CHECKS.into_iter().find(|(name, _)| name.starts_with("other schedules")).expect("the line");
        let shown = |schedules: Value, differ: Value| {
            let sums = serde_json::json!({"schedules": schedules, "schedules_differ": differ});
            check(&serde_json::json!({"batch_invariance": {"table_gradient": sums}}))
        };
        assert_eq!(shown(67.into(), 2.into()), "2 of 67");
        assert_eq!(shown(0.into(), 0.into()), Value::Null);
        assert_eq!(shown(Value::Null, Value::Null), Value::Null);
        assert_eq!(check(&Value::Null), Value::Null);
    }
}
