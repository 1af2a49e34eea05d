//! `rowloom compare`: reports side by side, published ones too.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output;
use crate::report::stand_in;
use crate::report::table::{CHECKS, Line, aligned, escaped, lines_of_size, number_text, sizes};

/// Shown below the help.
pub const EXAMPLES: &str = "Examples:
  rowloom compare report.json
  rowloom compare h200.json evidence/h200/adaln_row_gather.json
  rowloom compare report.json crates/cli/data/adaln_row_gather_b200.json --json";

/// Shows reports side by side; ratios are to the first column.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of `rowloom report`, or published ones in the same schema.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let reports = args.reports.iter().map(|path| Report::read(path)).collect::<Result<Vec<Report>>>()?;
    let comparison = compare(&reports)?;
    let text = if args.json {
        let mut text = serde_json::to_string_pretty(&comparison.json()).map_err(Error::failed)?;
        text.push('\n');
        text
    } else {
        comparison.text()
    };
    output::print(text.as_bytes())
}

/// A report and what it is called here.
pub struct Report {
    name: String,
    report: Value,
}

impl Report {
    fn read(path: &Path) -> Result<Report> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Report::parse(name, &text).map_err(|why| Error::failed(format!("{} is no report: {why}", path.display())))
    }

    fn parse(name: String, text: &str) -> std::result::Result<Report, String> {
        let report: Value = serde_json::from_str(text).map_err(|error| format!("no JSON, {error}"))?;
        if !report["op"].is_string() {
            return Err("it has no op".to_owned());
        }
        if report["results"]["plain"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Err("it has no results.plain".to_owned());
        }
        Ok(Report { name, report })
    }

    /// What its times were taken on.
    fn device(&self) -> &str {
        let environment = &self.report["environment"];
        let named = ["gpu", "cpu", "device"].into_iter().find_map(|key| environment[key].as_str());
        named.unwrap_or("an unnamed device")
    }

    /// How much of its ceiling a time is, where both are known.
    fn share(&self, line: &Line, positions: &str, us: f64) -> Option<f64> {
        let traffic = &self.report["protocol"]["traffic"][line.direction?];
        let bytes = traffic["bytes_per_position"].as_f64()? * positions.parse::<f64>().ok()?;
        let ceiling = format!("{}_gb_s", traffic["kind"].as_str()?);
        let ceiling = self.report["environment"]["ceilings"][positions][&ceiling].as_f64()?;
        Some(bytes / us / 1e3 / ceiling)
    }
}

/// Reports side by side.
struct Comparison<'r> {
    columns: Vec<Column<'r>>,
    warnings: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
}

/// An implementation of one report.
struct Column<'r> {
    report: &'r Report,
    implementation: &'r str,
    result: &'r Value,
}

/// What one column says in one row.
#[derive(Default)]
struct Cell {
    value: Value,
    /// To the first column.
    ratio: Option<f64>,
    /// Of its own ceiling.
    share: Option<f64>,
}

fn compare(reports: &[Report]) -> Result<Comparison<'_>> {
    let first = &reports[0];
    if let Some(other) = reports.iter().find(|other| other.report["op"] != first.report["op"]) {
        let (left, right) = (&first.report["op"], &other.report["op"]);
        return Err(Error::failed(format!(
            "{} is a report of {left} and {} one of {right}; compare reports of one kernel",
            escaped(&first.name),
            escaped(&other.name)
        )));
    }
    let columns: Vec<Column<'_>> = reports
        .iter()
        .flat_map(|report| {
            let results = report.report["results"]["plain"].as_object().into_iter().flatten();
            results.map(move |(implementation, result)| Column { report, implementation, result })
        })
        .collect();
    let mut rows: Vec<(String, Vec<Cell>)> = CHECKS
        .iter()
        .map(|(name, cell)| {
            let cell = |column: &Column<'_>| Cell { value: cell(column.result), ..Cell::default() };
            ((*name).to_owned(), columns.iter().map(cell).collect())
        })
        .collect();
    for positions in sizes(columns.iter().map(|column| column.result)) {
        for line in lines_of_size() {
            let value = |column: &Column<'_>| line.value(column.result, &positions);
            if columns.iter().all(|column| value(column).is_null()) {
                continue;
            }
            let base = value(&columns[0]).as_f64();
            let cell = |column: &Column<'_>| {
                let value = value(column);
                let number = value.as_f64();
                // Times of two devices say nothing of each other.
                let comparable = !line.is_time || column.report.device() == columns[0].report.device();
                let ratio = base.zip(number).filter(|&(base, _)| comparable && base != 0.0);
                let share = number.and_then(|us| column.report.share(&line, &positions, us));
                Cell { value, ratio: ratio.map(|(base, number)| number / base), share }
            };
            rows.push((format!("S = {positions}: {}", line.name), columns.iter().map(cell).collect()));
        }
    }
    Ok(Comparison { warnings: warnings(reports), columns, rows })
}

/// What makes reports less comparable than they look.
fn warnings(reports: &[Report]) -> Vec<String> {
    let mut warnings = Vec::new();
    let first = &reports[0];
    for other in &reports[1..] {
        let quick = |report: &Report| report.report["quick"] == true;
        if quick(first) != quick(other) {
            let (quick, full) = if quick(first) { (first, other) } else { (other, first) };
            warnings.push(format!(
                "{} is quick and {} is full: they count different comparisons and runs",
                quick.name, full.name
            ));
        }
        for key in ["/protocol/dtype", "/protocol/hidden", "/environment/layout"] {
            let (left, right) = (first.report.pointer(key), other.report.pointer(key));
            if let (Some(left), Some(right)) = (left, right)
                && left != right
            {
                let what = key.rsplit('/').next().unwrap_or(key);
                warnings.push(format!("{what} is {left} in {} and {right} in {}", first.name, other.name));
            }
        }
        if first.device() != other.device() {
            warnings.push(format!(
                "{} was measured on {} and {} on {}: their times are compared as shares of their own ceilings only",
                first.name,
                first.device(),
                other.name,
                other.device()
            ));
        }
    }
    warnings
}

impl Comparison<'_> {
    fn text(&self) -> String {
        let mut text: String = self.warnings.iter().map(|warning| format!("warning: {}\n", escaped(warning))).collect();
        let header = self
            .columns
            .iter()
            .map(|column| format!("{}: {}", column.report.name, stand_in::shown(column.implementation)));
        let mut table = vec![std::iter::once(String::new()).chain(header).collect::<Vec<_>>()];
        for (name, cells) in &self.rows {
            let texts = cells.iter().zip(&self.columns).enumerate().map(|(at, (cell, column))| {
                if column.result.get("unavailable").is_some() { "unavailable".to_owned() } else { cell.text(at > 0) }
            });
            table.push(std::iter::once(name.clone()).chain(texts).collect());
        }
        text += &aligned(&table);
        text += "Times in µs; in brackets the share of the report's own ceiling; × the first column.\n";
        let stand_ins = self.columns.iter().filter(|column| column.implementation == stand_in::NAME);
        let notes = stand_ins.map(|column| (&column.report.name, stand_in::note(&column.report.report)));
        let mut notes: Vec<(&String, Vec<String>)> = notes.filter(|(_, note)| !note.is_empty()).collect();
        // One on a GPU is not what one on a CPU is; what is the same of all is said once.
        let differ = notes.windows(2).any(|pair| pair[0].1 != pair[1].1);
        notes.truncate(if differ { notes.len() } else { 1 });
        for (name, note) in notes {
            let of = if differ { format!("{}: ", escaped(name)) } else { String::new() };
            text.extend(note.into_iter().map(|line| format!("{of}{line}\n")));
        }
        text
    }

    fn json(&self) -> Value {
        let columns = self.columns.iter().map(|column| {
            json!({
                "report": column.report.name,
                "implementation": column.implementation,
                "device": column.report.device(),
                "quick": column.report.report["quick"],
            })
        });
        let cell = |cell: &Cell| json!({"value": cell.value, "ratio": cell.ratio, "share_of_ceiling": cell.share});
        let rows = self
            .rows
            .iter()
            .map(|(name, cells)| json!({"name": name, "cells": cells.iter().map(cell).collect::<Vec<_>>()}));
        json!({
            "warnings": self.warnings,
            "columns": columns.collect::<Vec<_>>(),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

impl Cell {
    fn text(&self, with_ratio: bool) -> String {
        let mut text = match &self.value {
            Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Value::Number(number) => number_text(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => "-".to_owned(),
        };
        if let Some(share) = self.share {
            text += &format!(" ({:.0} %)", 100.0 * share);
        }
        if let (Some(ratio), true) = (self.ratio, with_ratio) {
            text += &format!(" ×{ratio:.2}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, gpu: &str, quick: bool, scale: f64) -> Report {
        let at = json!({
            "fwd_rel_err": 0.0, "grad_rel_err": {"table": 0.0025 * scale}, "fwd_us": 100.0 * scale,
            "fwd_bwd_us": 1000.0 * scale, "fwd_planned_us": 70.0 * scale, "correctly_rounded": 0.99999});
        let checks = json!({
            "batch_invariant": true, "params_repeatable": true,
            "all_rows": {"64": {"rows": 192, "fwd_differ": 0, "rowgrad_differ": 0}},
            "batch_size_sweep": {"comparisons": 2256, "differ": 0}});
        let result = json!({"batch_invariance": checks, "accuracy_latency": {"4097": at}});
        let report = json!({
            "op": "adaln_row_gather", "quick": quick,
            "environment": {"gpu": gpu, "layout": "interleaved", "ceilings": {"4097": {"write_gb_s": 4400.0}}},
            "protocol": {"traffic": {"forward": {"kind": "write", "bytes_per_position": 64512}}},
            "results": {"plain": {"rowloom": result, "index_select": {"unavailable": "no GPU"}}}});
        Report { name: name.to_owned(), report }
    }

    fn published() -> Report {
        let text = include_str!("../data/adaln_row_gather_b200.json");
        Report::parse("b200".to_owned(), text).expect("a report")
    }

    #[test]
    fn reports_stand_side_by_side() {
        let reports = [report("new", "NVIDIA H200", false, 1.0), report("old", "NVIDIA H200", true, 2.0), published()];
        insta::assert_snapshot!(compare(&reports).expect("a comparison").text());
    }

    #[test]
    fn what_index_select_is_stands_below_once_or_for_each() {
        let with = |name: &str, gpu: Value| {
            let mut report = report(name, "NVIDIA H200", false, 1.0);
            report.report["environment"]["gpu"] = gpu;
            report.report["results"]["plain"]["index_select"] = json!({"source": "op by op"});
            report
        };
        let below = |reports: &[Report]| {
            let text = compare(reports).expect("a comparison").text();
            assert!(text.contains(": index_select (stand-in)"), "{text}");
            text.lines().skip_while(|line| !line.starts_with("Times in")).skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let on_cpu = below(&[with("a", Value::Null), with("b", Value::Null)]);
        assert!(on_cpu.len() == 2 && on_cpu[0].starts_with("index_select (stand-in) is rowloom's own"), "{on_cpu:?}");
        let both = below(&[with("a", Value::Null), with("b", "NVIDIA H200".into())]);
        assert!(both.len() == 4 && both[0].starts_with("a: ") && both[2].starts_with("b: "), "{both:?}");
        assert!(both[0].contains("as a GPU's atomics do") && !both[2].contains("CPU"), "{both:?}");
    }

    #[test]
    fn times_of_two_devices_have_no_ratio() {
        let reports = [report("h200", "NVIDIA H200", false, 1.0), published()];
        let json = compare(&reports).expect("a comparison").json();
        let cell = |row: &str, column: usize| {
            let rows = json["rows"].as_array().expect("rows");
            rows.iter().find(|found| found["name"] == row).unwrap_or_else(|| panic!("{row}"))["cells"][column].clone()
        };
        assert_eq!(cell("S = 4097: fwd_us", 3)["value"], 115.11999741196632);
        assert!(cell("S = 4097: fwd_us", 3)["ratio"].is_null());
        assert!(cell("S = 4097: grad_rel_err", 3)["ratio"].as_f64().is_some_and(|ratio| (1.0..1.01).contains(&ratio)));
        let share = cell("S = 4097: fwd_planned_us", 0)["share_of_ceiling"].as_f64().expect("a share");
        assert!((share - 4097.0 * 64512.0 / 70.0 / 4.4e6).abs() < 1e-12);
    }

    #[test]
    fn an_error_that_is_no_number_is_not_taken_for_unmeasured() {
        let mut broken = report("broken", "NVIDIA H200", false, 1.0);
        let at = &mut broken.report["results"]["plain"]["rowloom"]["accuracy_latency"]["4097"];
        at["fwd_rel_err"] = "NaN".into();
        at["grad_rel_err"] = json!({"gate": 0.5, "table": "inf"});
        for order in [[0, 1], [1, 0]] {
            let whole = || report("whole", "NVIDIA H200", false, 1.0);
            let broken = || Report { name: "broken".to_owned(), report: broken.report.clone() };
            let text = compare(&order.map(|at| if at == 0 { broken() } else { whole() })).expect("a comparison").text();
            let cells = |line: &str| {
                let line = text.lines().find_map(|found| found.strip_prefix(&format!("S = 4097: {line} ")));
                let cells = line.unwrap_or_else(|| panic!("{text}")).split_whitespace().map(str::to_owned);
                cells.filter(|cell| cell != "unavailable").collect::<Vec<_>>()
            };
            assert_eq!(cells("fwd_rel_err"), order.map(|at| ["NaN", "0"][at]));
            assert_eq!(cells("grad_rel_err"), order.map(|at| ["inf", "2.50e-3"][at]));
        }
    }

    #[test]
    fn counts_of_any_size_and_names_of_any_letters_are_shown() {
        let most = json!({"fwd_differ": u64::MAX, "rowgrad_differ": 1, "sub_batches": 3, "rows": u64::MAX});
        let sums = json!({
            "isolated_rows": u64::MAX, "other_rows_permuted": u64::MAX, "schedules": 1,
            "isolated_rows_differ": u64::MAX, "other_rows_permuted_differ": 2, "schedules_differ": 1});
        let checks = json!({"all_rows": {"1": most, "2": most}, "full_vs_sub_batches": most, "table_gradient": sums});
        let mut huge = report("e\u{1b}[31m\nvil", "NVIDIA\u{9b}H200", true, 1.0);
        let at = json!({"\u{7}": {"fwd_us": 1.0}});
        let result = json!({"batch_invariance": checks, "accuracy_latency": at});
        huge.report["results"]["plain"] = json!({"\u{1b}]0;x\u{7}": result});
        let reports = [huge, report("new", "NVIDIA H200", false, 1.0)];
        let comparison = compare(&reports).expect("a comparison");
        let text = comparison.text();
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(text.contains("e\\u{1b}[31m\\nvil: \\u{1b}]0;x\\u{7}"), "{text}");
        assert_eq!(text.matches("18446744073709551615 of 18446744073709551615").count(), 2, "{text}");
        assert!(text.contains("18446744073709551615 of 3"), "{text}");
    }

    #[test]
    fn what_is_no_report_says_why() {
        let why = |text: &str| Report::parse("x".to_owned(), text).err().expect("no report");
        assert!(why("{").starts_with("no JSON"));
        assert_eq!(why("{}"), "it has no op");
        assert_eq!(why("{\"op\": \"x\", \"results\": {\"plain\": {}}}"), "it has no results.plain");
        let mut other = report("other", "NVIDIA H200", false, 1.0);
        other.report["op"] = "row_gather".into();
        let refused = compare(&[report("one", "NVIDIA H200", false, 1.0), other]).err().expect("refused");
        assert!(refused.to_string().contains("compare reports of one kernel"), "{refused}");
    }
}
