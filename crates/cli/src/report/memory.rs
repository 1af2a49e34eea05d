//! Whether a report's inputs fit the host, before any of them is made.

use rowloom_codegen::ir::{InputKind, RowExpr};
use rowloom_codegen::{Spec, Verified};
use rowloom_runtime::Device;

use super::case::Case;
use super::clock::is_gpu;
use crate::error::{Error, Result};

/// Refuses sizes of which the host must hold more at once than is free.
pub fn check(case: &Case, spec: &Spec, device: &Device, positions: &[u64]) -> Result<()> {
    let most = positions.iter().copied().max().unwrap_or(0);
    let needed = needed(case, spec, most, !is_gpu(device));
    let Some(free) = rowloom_runtime::free_memory_bytes() else { return Ok(()) };
    if needed <= u128::from(free) {
        return Ok(());
    }
    let gib = |bytes: u128| bytes.div_ceil(1 << 30);
    let (needed, free) = (gib(needed), gib(free.into()));
    Err(Error::failed(format!(
        "tensors, indices and plans of these sizes take {needed} GiB, and {free} GiB are free; \
         choose a smaller --positions, --rows or --hidden"
    )))
}

/// Bytes that a report needs at least. On a CPU it times calls of whole tensors, with plans;
/// a GPU has memory of its own, and the host makes the inputs.
fn needed(case: &Case, spec: &Spec, positions: u64, on_cpu: bool) -> u128 {
    let positions = u128::from(positions);
    let mut needed = 0;
    for input in &case.forward.inputs {
        needed += match input.kind {
            InputKind::Table { ty, rows, chunks } => {
                let elements = u128::from(spec.extent(rows)) * u128::from(chunks) * u128::from(spec.hidden);
                // With its gradient.
                2 * elements * u128::from(spec.float(ty).bytes())
            }
            InputKind::Index { ty, .. } => positions * u128::from(spec.int(ty).bytes()),
            InputKind::Rows(_) => 0,
        };
    }
    // The layout has two numbers a position.
    needed += 16 * positions;
    let bytes = |kernel: &Verified| case.read_bytes(kernel) + if on_cpu { case.written_bytes(kernel) } else { 0 };
    let rows = case.kernels().map(bytes).into_iter().max().unwrap_or(0);
    needed += u128::from(rows) * u128::from(spec.hidden) * positions;
    if on_cpu {
        let plan = |row: &RowExpr| 8 * positions + 16 * u128::from(spec.extent(row.rows));
        let plans = case.kernels().map(|kernel| kernel.rows.iter().map(plan));
        needed += plans.into_iter().flatten().sum::<u128>();
    }
    needed
}

#[cfg(test)]
mod tests {
    use rowloom_codegen::{DType, IntType, Wants};
    use rowloom_op_adaln::Layout;

    use super::*;

    /// What `row_gather` in bf16 needs.
    fn of_gather(rows: u64, positions: u64, hidden: u64, layout: Layout, on_cpu: bool) -> u128 {
        let declaration = (crate::kernels::find("row_gather").expect("a kernel").declaration)();
        let forward = declaration.forward();
        let (forward, backward) = (forward.clone().into(), declaration.backward(&Wants::all(forward)));
        let case = Case { forward, backward, dtype: DType::Bf16, counts: vec![rows], hidden, layout };
        let spec = Spec::contiguous(&case.forward, case.dtype, IntType::I64, &case.counts, hidden);
        needed(&case, &spec, positions, on_cpu)
    }

    #[test]
    fn tables_indices_rows_and_plans_are_counted() {
        let rows = 4_294_967_294;
        let tables = 2 * 2 * u128::from(rows);
        // A plan of each direction: three arrays of starts, and the blocks.
        let plans = 2 * (16 * u128::from(rows) + 8);
        assert_eq!(of_gather(rows, 1, 1, Layout::INTERLEAVED, true), tables + plans + 24 + 2);
        assert_eq!(of_gather(rows, 1, 1, Layout::INTERLEAVED, false), tables + 24 + 2);
        let piece = "ref2va:64/64".parse().expect("a layout");
        let table = 2 * 2 * 9 * 5376;
        let positions = 1 << 20;
        let expected = table + 2 * (16 * 9 + 8 * positions) + (24 + 2 * 5376) * positions;
        assert_eq!(of_gather(9, 1 << 20, 5376, piece, true), expected, "a piece is made without its whole");
    }
}
