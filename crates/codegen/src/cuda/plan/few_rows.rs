//! Rows that are one digit: where their positions, blocks and partial sums begin, in shared memory.

use super::super::{Param, PlanArray, Writer};
use super::{Plan, Sort, TOTALS, array, blocks};

/// What [`divide`] and [`name_rows`] write.
pub(super) fn params() -> [Param; 5] {
    let [a, b, c, d] =
        [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart, PlanArray::BlockRow].map(array);
    [a, b, c, d, Param::Scratch(TOTALS)]
}

/// `begins`: of one row.
pub(super) fn helper(plan: &mut Plan) {
    let block = plan.block;
    let writer = &mut plan.writer;
    writer.line("");
    writer.line("// Where the positions, the blocks and the partial sums of a row begin. counted: positions of each.");
    let head =
        "RL_INLINE void begins(const rl_u32* counted, rl_u32 row, rl_u32& segment, rl_u32& blocks, rl_u32& partials)";
    writer.block(head, |writer| {
        writer.line("segment = 0, blocks = 0, partials = 0;");
        writer.block("for (rl_u32 before = 0; before < row; ++before)", |writer| {
            writer.line("const rl_u32 length = counted[before];");
            writer.line(format!("const rl_u32 full = length / {block} + (length % {block} != 0);"));
            writer.line("const rl_u32 own = full > 1 ? full : 1;");
            writer.line("segment += length;");
            writer.line("blocks += own;");
            writer.line("partials += own > 1 ? own : 0;");
        });
    });
}

/// The shared arrays of [`divide`].
pub(super) fn shared(writer: &mut Writer, sort: &Sort, rows: u64) {
    writer.line(format!("RL_SHARED(rl_u32, counted, {});", sort.digits.values));
    writer.line(format!("RL_SHARED(rl_u32, block_begin, {});", rows + 1));
}

/// Segments and blocks of the rows, of `counted`; one block of threads stores them. `further`
/// sees `row` and where its positions begin: `segment`.
pub(super) fn divide(
    writer: &mut Writer,
    sort: &Sort,
    rows: u64,
    stores: Option<&str>,
    further: impl FnOnce(&mut Writer),
) {
    writer.block(format!("for (rl_u32 row = rl_thread(); row <= {rows}; row += {})", sort.threads), |writer| {
        writer.line("rl_u32 segment, blocks, partials;");
        writer.line("begins(counted, row, segment, blocks, partials);");
        writer.line("block_begin[row] = blocks;");
        further(writer);
        if let Some(condition) = stores {
            writer.line(format!("if ({condition}) continue;"));
        }
        writer.line("rl_store(segment_start + row, segment);");
        writer.line("rl_store(block_start + row, blocks);");
        writer.line("rl_store(partial_start + row, partials);");
        writer.block(format!("if (row == {rows})"), |writer| {
            writer.line("rl_store(totals + 1, static_cast<rl_u64>(blocks));");
            writer.line("rl_store(totals + 2, static_cast<rl_u64>(partials));");
            writer.line("rl_store(totals + 3, static_cast<rl_u64>(segment));");
        });
    });
}

/// The row of each block, shared by so many threads.
pub(super) fn name_rows(writer: &mut Writer, sort: &Sort, rows: u64, all: &str) {
    blocks::name_rows(writer, rows, sort.threads, all, |at| format!("block_begin[{at}]"));
}
