//! Whether a report's inputs fit the host, before any of them is made.

use rowloom_codegen::Spec;
use rowloom_codegen::ir::InputKind;

use super::case::Case;
use crate::error::{Error, Result};

/// Refuses sizes whose tables (with their gradients) and indices alone exceed what is free.
/// Rows come in slices of columns and are not counted.
pub fn check(case: &Case, spec: &Spec, positions: &[u64]) -> Result<()> {
    let most = u128::from(positions.iter().copied().max().unwrap_or(0));
    let inputs = case.forward.inputs.iter().map(|input| match input.kind {
        InputKind::Table { ty, rows, chunks } => {
            let columns = u128::from(chunks) * u128::from(spec.hidden);
            2 * u128::from(spec.extent(rows)) * columns * u128::from(spec.float(ty).bytes())
        }
        InputKind::Index { ty, .. } => most * u128::from(spec.int(ty).bytes()),
        InputKind::Rows(_) => 0,
    });
    let needed: u128 = inputs.sum();
    let Some(free) = free() else { return Ok(()) };
    if needed <= u128::from(free) {
        return Ok(());
    }
    let gib = |bytes: u128| bytes.div_ceil(1 << 30);
    let (needed, free) = (gib(needed), gib(free.into()));
    Err(Error::failed(format!(
        "tables and indices of these sizes take {needed} GiB, and {free} GiB are free; \
         choose a smaller --positions, --rows or --hidden"
    )))
}

/// Memory that programs can still have, where the system tells.
fn free() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
