//! The kind `one_block`: one block of threads, tile after tile.

use super::super::{Count, Param, PlanArray};
use super::{Plan, PlanShape, Scratch, Sort, array, few_rows, rows, totals};

/// Writes the entry; gives its scratch.
pub(super) fn write(plan: &mut Plan, shape: &PlanShape, sort: &Sort) -> Vec<Scratch> {
    sort.rank_helper(&mut plan.writer);
    few_rows::helper(plan);
    let mut params = rows::params(shape);
    params.extend([PlanArray::Rows, PlanArray::Order].map(array));
    params.extend(few_rows::params());
    params.push(Param::Positions);
    let what = "checks each index in its own bounds, combines and sorts them, and divides rows into blocks";
    let (row_count, threads, digits) = (plan.rows, sort.threads, sort.digits.values);
    plan.entry("plan_all", what, Count::Fixed(1), &params, |writer| {
        sort.shared(writer);
        few_rows::shared(writer, sort, row_count);
        writer.line(format!("RL_SHARED(rl_u32, begin, {digits});"));
        writer.line("RL_SHARED(rl_u64, bad, 1);");
        writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
        writer.line("rl_barrier();");
        writer.line(sort.count_tiles());
        let (items, own) = (sort.items, format!("if (rl_thread() < {digits})"));
        let count = sort.ranked_count();
        writer.line(format!("rl_u32 from[{items}], digits[{items}], count = 0, total;"));
        writer.block("for (rl_u64 tile = 0; tile < tiles; ++tile)", |writer| {
            rows::items(writer, shape, sort, &sort.neighbours());
            writer.line("rank(places, sums, digits, total);");
            writer.line(format!("{own} count += {count};"));
        });
        writer.line("if (rl_thread() == 0) rl_store(totals, bad[0]);");
        writer.line(format!("{own} counted[rl_thread()] = count;"));
        writer.line("rl_barrier();");
        writer.line("// Of the digit of this thread's number: where those end that have not been moved.");
        writer.line("rl_u32 end = 0;");
        few_rows::divide(writer, sort, row_count, None, |writer| {
            writer.line("if (row == rl_thread()) end = segment + count;");
        });
        writer.line("// From the last tile, which has been ranked, to the first.");
        writer.block("for (rl_u64 tile = tiles; tile-- > 0;)", |writer| {
            writer.block("if (tile + 1 < tiles)", |writer| {
                writer.block(sort.each_item(), |writer| {
                    writer.line(format!("const rl_u64 at = {};", sort.neighbours()));
                    writer.line("// This thread's own store.");
                    writer.line("const rl_u32 row = rl_load_fresh(rows + at);");
                    writer.line(format!("digits[item] = {};", sort.digits.digit("row", 0)));
                });
                writer.line("rank(places, sums, digits, total);");
            });
            writer.block(&own, |writer| {
                writer.line(format!("end -= {count};"));
                writer.line(format!("begin[rl_thread()] = end - places[rl_thread() * {threads}];"));
            });
            writer.line("rl_barrier();");
            writer.line(format!("{} from[item] = static_cast<rl_u32>({});", sort.each_item(), sort.neighbours()));
            sort.move_items(writer, "order");
        });
        few_rows::name_rows(writer, sort, row_count, &threads.to_string());
    });
    vec![totals()]
}
