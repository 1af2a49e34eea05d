//! Segments and their blocks of positions.

use super::super::{Count, Param, PlanArray, Writer};
use super::{ERRORS, Plan, TOTALS, array};

/// `divide`: what one block of threads computes of all rows.
pub(super) fn helper(plan: &mut Plan) {
    let (rows, block, threads) = (plan.rows, plan.block, plan.threads);
    let writer = &mut plan.writer;
    writer.line("");
    writer.line("// Divides rows into blocks of positions. Called by every thread of one block.");
    let head = "RL_INLINE void divide(rl_u32* sums, const rl_u32* segment_start, rl_u32* block_start, rl_u32* partial_start, rl_u64* totals)";
    writer.block(head, |writer| {
        writer.line("rl_u32 blocks = 0, partials = 0;");
        writer.block(format!("for (rl_u64 begin = 0; begin < {rows}; begin += {threads})"), |writer| {
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

/// Calls `divide`.
pub(super) fn call(writer: &mut Writer) {
    writer.line("divide(sums, segment_start, block_start, partial_start, totals);");
}

/// The error word: the smallest of `count` many in `errors`. For every thread of one block.
pub(super) fn smallest_error(writer: &mut Writer, threads: u32, count: &str) {
    writer.line("RL_SHARED(rl_u64, bad, 1);");
    writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
    writer.line("rl_barrier();");
    writer.block(format!("for (rl_u64 at = rl_thread(); at < {count}; at += {threads})"), |writer| {
        writer.line("const rl_u64 error = rl_load<rl_u64>(errors + at);");
        writer.line("if (error != ~0ull) rl_atomic_min(bad, error);");
    });
    writer.line("rl_barrier();");
    writer.line("if (rl_thread() == 0) rl_store(totals, bad[0]);");
}

/// Segments and blocks of rows that are several digits. The lines say how many errors there are: `count`.
pub(super) fn many_rows(plan: &mut Plan, lines: &[String], count: &str) {
    segments(plan);
    let arrays = [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart];
    let mut params = arrays.map(array).to_vec();
    params.extend([Param::Scratch(ERRORS), Param::Scratch(TOTALS), Param::Positions]);
    let threads = plan.threads;
    blocks(plan, &params, |writer| {
        lines.iter().for_each(|line| writer.line(line));
        call(writer);
        smallest_error(writer, threads, count);
    });
    block_rows(plan);
}

/// Where each row's positions begin: a binary search in the sorted keys.
fn segments(plan: &mut Plan) {
    let params = [array(PlanArray::Rows), array(PlanArray::Order), array(PlanArray::SegmentStart), Param::Positions];
    let (rows, threads) = (plan.rows, plan.threads);
    let what = "finds where each row's positions begin";
    plan.entry("plan_segments", what, plan.threads_for(rows + 1), &params, |writer| {
        each(writer, threads, "row", &(rows + 1).to_string(), |writer| {
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

/// Where each row's blocks and partial sums begin, and how many there are: `inside` calls `divide`.
pub(super) fn blocks(plan: &mut Plan, params: &[Param], inside: impl FnOnce(&mut Writer)) {
    let threads = plan.threads;
    plan.entry("plan_blocks", "divides rows into blocks of positions", Count::Fixed(1), params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, sums, {});", 2 * threads));
        inside(writer);
    });
}

/// The row of each block.
pub(super) fn block_rows(plan: &mut Plan) {
    let params = [array(PlanArray::BlockStart), array(PlanArray::BlockRow)];
    let (rows, threads) = (plan.rows, plan.threads);
    plan.entry("plan_block_rows", "names the row of each block", plan.threads_for(rows), &params, |writer| {
        let all = format!("rl_blocks() * {threads}");
        name_rows(writer, rows, threads, &all, |at| format!("rl_load<rl_u32>(block_start + {at})"));
    });
}

/// `block_row` of every block: the last row that begins no later. `all` threads share the
/// blocks; `start` is where the blocks of a row begin.
pub(super) fn name_rows(writer: &mut Writer, rows: u64, threads: u32, all: &str, start: impl Fn(&str) -> String) {
    writer.line(format!("const rl_u32 blocks = {};", start(&rows.to_string())));
    let first = format!("rl_block() * {threads} + rl_thread()");
    writer.block(format!("for (rl_u64 block = {first}; block < blocks; block += {all})"), |writer| {
        writer.line(format!("rl_u32 low = 0, high = {rows};"));
        writer.block("while (high - low > 1)", |writer| {
            writer.line("const rl_u32 middle = low + (high - low) / 2;");
            writer.line(format!("const bool begun = {} <= block;", start("middle")));
            writer.line("low = begun ? middle : low;");
            writer.line("high = begun ? high : middle;");
        });
        writer.line("rl_store(block_row + block, low);");
    });
}

/// `for` over all threads of the grid, one `name` below `limit` each.
pub(super) fn each(writer: &mut Writer, threads: u32, name: &str, limit: &str, inside: impl FnOnce(&mut Writer)) {
    let head = format!(
        "for (rl_u64 {name} = rl_block() * {threads} + rl_thread(); {name} < {limit}; {name} += rl_blocks() * {threads})"
    );
    writer.block(head, inside);
}
