//! A short table at the end of a run: absolute times, and shares of what the memory gave in the same run.

use std::fmt;

use rowloom_runtime::baseline::median;

/// Fewest runs that a median is taken of: `--test` makes one, which says nothing.
const FEWEST_RUNS: usize = 10;

/// Rows under one head.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows yet. The first column is words, the others are numbers.
    pub fn new(head: &[&str]) -> Table {
        Table { head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Prints it, if there is anything in it.
    #[expect(clippy::print_stdout, reason = "a benchmark talks to its user")]
    pub fn print(&self) {
        if !self.rows.is_empty() {
            println!("\n{self}");
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.head.len()).map(|column| width(column).unwrap_or(0)).collect();
        for row in all() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The median of times, if there are enough of them.
pub fn typical(times: &[f64]) -> Option<f64> {
    median(times).filter(|_| times.len() >= FEWEST_RUNS)
}

/// 10^9 bytes a second.
pub fn gb_s(bytes: u64, us: f64) -> String {
    format!("{:.1}", bytes as f64 / us / 1e3)
}

/// As percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
