//! Segments and their blocks of positions.

use super::super::{Count, Param, PlanArray, Writer};
use super::{ERRORS, Plan, THREADS, TILE, TOTALS, array, each, threads_for};

/// `scan`: sums over the threads of a block.
pub(super) fn scan(writer: &mut Writer) {
    writer.line("");
    writer.line("// The sum of the values of all threads before this one; total: of all. Called by every thread.");
    writer.block("RL_INLINE rl_u32 scan(rl_u32* sums, rl_u32 value, rl_u32& total)", |writer| {
        writer.line("const rl_u32 thread = rl_thread();");
        writer.line("rl_barrier();");
        writer.line("sums[thread] = value;");
        writer.line("rl_barrier();");
        writer.block(format!("for (rl_u32 step = 1; step < {THREADS}; step *= 2)"), |writer| {
            writer.line("const rl_u32 before = thread >= step ? sums[thread - step] : 0;");
            writer.line("rl_barrier();");
            writer.line("sums[thread] += before;");
            writer.line("rl_barrier();");
        });
        writer.line(format!("total = sums[{}];", THREADS - 1));
        writer.line("return sums[thread] - value;");
    });
}

/// `divide`: what one block of threads computes of all rows.
pub(super) fn helpers(plan: &mut Plan) {
    let (rows, block) = (plan.rows, plan.block);
    let writer = &mut plan.writer;
    writer.line("");
    writer.line("// Divides rows into blocks of positions. Called by every thread of one block.");
    let head = "RL_INLINE void divide(rl_u32* sums, const rl_u32* segment_start, rl_u32* block_start, rl_u32* partial_start, rl_u64* totals)";
    writer.block(head, |writer| {
        writer.line("rl_u32 blocks = 0, partials = 0;");
        writer.block(format!("for (rl_u64 begin = 0; begin < {rows}; begin += {THREADS})"), |writer| {
            writer.line("const rl_u64 row = begin + rl_thread();");
            writer.line(format!("const bool inside = row < {rows};"));
            writer.line("const rl_u32 length = inside ? rl_load_fresh(segment_start + row + 1) - rl_load_fresh(segment_start + row) : 0;");
            writer.line(format!("const rl_u32 full = length / {block} + (length % {block} != 0);"));
            writer.line("const rl_u32 own = inside ? (full > 1 ? full : 1) : 0;");
            writer.line("const rl_u32 own_partials = own > 1 ? own : 0;");
            writer.line("rl_u32 total;");
            writer.line("const rl_u32 before = scan(sums, own, total);");
            writer.line("if (inside) rl_store(block_start + row, blocks + before);");
            writer.line("blocks += total;");
            writer.line("const rl_u32 partials_before = scan(sums, own_partials, total);");
            writer.line("if (inside) rl_store(partial_start + row, partials + partials_before);");
            writer.line("partials += total;");
        });
        writer.block("if (rl_thread() == 0)", |writer| {
            writer.line(format!("rl_store(block_start + {rows}, blocks);"));
            writer.line(format!("rl_store(partial_start + {rows}, partials);"));
            writer.line("rl_store(totals + 1, static_cast<rl_u64>(blocks));");
            writer.line("rl_store(totals + 2, static_cast<rl_u64>(partials));");
            writer.line(format!(
                "rl_store(totals + 3, static_cast<rl_u64>(rl_load_fresh(segment_start + {rows})));"
            ));
        });
    });
}

/// Calls `divide`, and takes the smallest error of all tiles if there are tiles.
pub(super) fn call_blocks(writer: &mut Writer, tiles: bool) {
    writer.line("divide(sums, segment_start, block_start, partial_start, totals);");
    if !tiles {
        writer.line("if (rl_thread() == 0) rl_store(totals, ~0ull);");
        return;
    }
    writer.line("RL_SHARED(rl_u64, bad, 1);");
    writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
    writer.line("rl_barrier();");
    writer.block(format!("for (rl_u64 tile = rl_thread(); tile < tiles; tile += {THREADS})"), |writer| {
        writer.line("const rl_u64 of_tile = rl_load<rl_u64>(errors + tile);");
        writer.line("if (of_tile != ~0ull) rl_atomic_min(bad, of_tile);");
    });
    writer.line("rl_barrier();");
    writer.line("if (rl_thread() == 0) rl_store(totals, bad[0]);");
}

/// Where each row's positions begin: a binary search in the sorted keys.
pub(super) fn segments(plan: &mut Plan) {
    let params = [array(PlanArray::Rows), array(PlanArray::Order), array(PlanArray::SegmentStart), Param::Positions];
    let rows = plan.rows;
    plan.entry("plan_segments", "finds where each row's positions begin", threads_for(rows + 1), &params, |writer| {
        each(writer, "row", &(rows + 1).to_string(), |writer| {
            writer.line("rl_u64 low = 0, high = positions;");
            writer.block("while (low < high)", |writer| {
                writer.line("const rl_u64 middle = low + (high - low) / 2;");
                // What has no row is the largest number, and stands last.
                writer.line("const bool before = rl_load<rl_u32>(rows + rl_load<rl_u32>(order + middle)) < row;");
                writer.line("low = before ? middle + 1 : low;");
                writer.line("high = before ? high : middle;");
            });
            writer.line("rl_store(segment_start + row, static_cast<rl_u32>(low));");
        });
    });
}

/// Where each row's blocks and partial sums begin, and how many there are; with `tiles` also
/// the smallest error of theirs.
pub(super) fn blocks(plan: &mut Plan, tiles: bool) {
    let arrays = [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart];
    let mut params = arrays.map(array).to_vec();
    if tiles {
        params.push(Param::Scratch(ERRORS));
    }
    params.push(Param::Scratch(TOTALS));
    if tiles {
        params.push(Param::Positions);
    }
    plan.entry("plan_blocks", "divides rows into blocks of positions", Count::Fixed(1), &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
        if tiles {
            writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
        }
        call_blocks(writer, tiles);
    });
}

/// The row of each block.
pub(super) fn block_rows(plan: &mut Plan) {
    let params = [array(PlanArray::BlockStart), array(PlanArray::BlockRow)];
    let rows = plan.rows;
    plan.entry("plan_block_rows", "names the row of each block", threads_for(rows), &params, |writer| {
        name_rows(writer, rows);
    });
}

/// `block_row` of every block: the last row that begins no later.
pub(super) fn name_rows(writer: &mut Writer, rows: u64) {
    writer.line(format!("const rl_u32 blocks = rl_load<rl_u32>(block_start + {rows});"));
    each(writer, "block", "blocks", |writer| {
        writer.line(format!("rl_u32 low = 0, high = {rows};"));
        writer.block("while (high - low > 1)", |writer| {
            writer.line("const rl_u32 middle = low + (high - low) / 2;");
            writer.line("const bool begun = rl_load<rl_u32>(block_start + middle) <= block;");
            writer.line("low = begun ? middle : low;");
            writer.line("high = begun ? high : middle;");
        });
        writer.line("rl_store(block_row + block, low);");
    });
}
