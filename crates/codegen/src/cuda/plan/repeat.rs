//! The plan of a batch whose sequences share one index: a plan, so many times.

use super::super::{Param, PlanArray, Source};
use super::blocks::{self, each};
use super::{Count, Plan, TOTALS, array, ranks, totals};
use crate::ir::RowId;

/// Threads of a block of every entry.
const THREADS: u32 = 256;

/// Plans of which others are made, whatever their positions and however often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanRepeat {
    /// Rows of both.
    pub rows: u64,
    /// Positions of a block, of both.
    pub block: u32,
}

/// The source of a plan's repetition. The plan repeated is that of row expression 1, the plan
/// made that of row expression 0: its positions are a multiple of the other's, `b * S + s` with
/// the row of `s`.
pub fn repeat(shape: &PlanRepeat) -> Source {
    let mut plan = Plan { rows: shape.rows, block: shape.block, threads: THREADS, ..Plan::default() };
    ranks::scan(&mut plan.writer, THREADS);
    blocks::helper(&mut plan);
    let one = |array| Param::Plan { row: RowId(1), array };
    let arrays = [PlanArray::Rows, PlanArray::Order, PlanArray::SegmentStart];
    let mut params: Vec<Param> = arrays.into_iter().map(one).chain(arrays.map(array)).collect();
    params.extend([Param::PlanPositions(RowId(1)), Param::Positions]);
    let rows = shape.rows;
    let grid = Count::Positions { per: u64::from(THREADS), each: 1 };
    plan.entry("plan_repeat", "repeats rows, order and segments", grid, &params, |writer| {
        writer.line("const rl_u64 batch = positions / sequence;");
        each(writer, THREADS, "position", "positions", |writer| {
            writer.line("const rl_u64 begin = position / sequence * sequence;");
            writer.line("const rl_u32 place = static_cast<rl_u32>(position - begin);");
            writer.line("rl_store(rows + position, rl_load<rl_u32>(one_rows + place));");
            writer.line("// The position at this place of the order, once more for this sequence of the batch.");
            writer.line("const rl_u32 from = rl_load<rl_u32>(one_order + place);");
            writer.line("const rl_u32 row = rl_load<rl_u32>(one_rows + from);");
            writer.line(format!("const bool placed = row < {rows};"));
            writer.line(format!("const rl_u64 first = rl_load<rl_u32>(one_segment_start + (placed ? row : {rows}));"));
            writer.line("const rl_u64 end = placed ? rl_load<rl_u32>(one_segment_start + row + 1) : sequence;");
            writer.line("const rl_u64 to = first * batch + begin / sequence * (end - first) + (place - first);");
            writer.line("rl_store(order + to, static_cast<rl_u32>(begin + from));");
        });
        each(writer, THREADS, "row", &(rows + 1).to_string(), |writer| {
            writer.line(
                "rl_store(segment_start + row, static_cast<rl_u32>(rl_load<rl_u32>(one_segment_start + row) * batch));",
            );
        });
    });
    let arrays = [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart];
    let params: Vec<Param> = arrays.map(array).into_iter().chain([Param::Scratch(TOTALS)]).collect();
    blocks::blocks(&mut plan, &params, |writer| {
        blocks::call(writer);
        writer.line("if (rl_thread() == 0) rl_store(totals, ~0ull);");
    });
    blocks::block_rows(&mut plan);
    let lines = vec![
        "a plan, repeated: a batch whose sequences share their rows, sequence after sequence".to_owned(),
        String::new(),
        format!("row        in 0..{rows}"),
        format!("blocks     {} positions of one row", shape.block),
    ];
    plan.source(lines, vec![totals()])
}
