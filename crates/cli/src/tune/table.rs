//! The table of a run.

use super::results::{Counts, Results};

/// A line for each subject and S, and below it what runs from now on.
pub fn table(results: &Results) -> String {
    let Results { op, dtype, hidden, product, layouts, seconds, .. } = results;
    let mut lines = vec![
        ["subject", "S", "timed", "illegal", "failed", "default", "winner", "gain", "ceiling", "s"].map(str::to_owned),
    ];
    let mut winners = Vec::new();
    for result in &results.results {
        let Counts { timed, illegal, differ, failed } = result.counts();
        let us = |us: f64| format!("{us:.1} µs");
        let [default, winner, gain, share] = match &result.record {
            None => ["-", "-", "-", "-"].map(str::to_owned),
            Some(record) => [
                us(record.default_us),
                us(record.winner_us),
                format!("{:.2}x", record.default_us / record.winner_us),
                results.ceilings.us(result).map_or_else(
                    || "-".to_owned(),
                    |(best, name)| format!("{:.0} % of {name}", 100.0 * best / record.winner_us),
                ),
            ],
        };
        let s = result.positions.to_string();
        let failed = match differ {
            0 => failed.to_string(),
            _ => format!("{failed}, {differ} wrong"),
        };
        winners.push(match &result.record {
            None if result.failed.is_some() => result.failed.clone().unwrap_or_default(),
            None if !result.searched => "not searched: the budget had run out".to_owned(),
            None => "nothing was timed: the budget ran out".to_owned(),
            Some(_) if result.earlier_stays.is_some() => result.earlier_stays.clone().unwrap_or_default(),
            Some(record) if !result.complete => format!("the default, for the budget ran out: {}", record.default),
            Some(record) if record.winner == record.default => format!("the default: {}", record.default),
            Some(record) => record.winner.to_string(),
        });
        let seconds = format!("{:.1}{}", result.seconds, if result.complete { "" } else { ", cut short" });
        let (timed, illegal) = (timed.to_string(), illegal.to_string());
        lines.push([result.name.clone(), s, timed, illegal, failed, default, winner, gain, share, seconds]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let layouts = layouts.join(", ");
    let mut text = format!("{op}, {dtype}, H = {hidden}, on {product}; layouts {layouts}; {seconds:.1} s\n\n");
    for (at, line) in lines.iter().enumerate() {
        let mut cells = line.iter().zip(&widths);
        if let Some((name, &width)) = cells.next() {
            text += &format!("{name:width$}");
        }
        for (cell, &width) in cells {
            text += &format!("  {cell:>width$}");
        }
        text.push('\n');
        if let Some(winner) = at.checked_sub(1).and_then(|at| winners.get(at)) {
            text += &format!("    {winner}\n");
        }
    }
    text
}
