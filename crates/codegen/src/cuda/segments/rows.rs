//! One row × one tile of columns: every block of positions of every term.

use super::super::{Context, Count};
use super::chain::Chain;
use super::entry::{finish, params, rows_of};
use super::group::Group;
use super::{SegmentsSchedule, Writer};
use crate::cuda::PlanArray;

pub(super) fn rows(context: &mut Context<'_>, group: &Group, name: &str, schedule: SegmentsSchedule) {
    let params = params(group, &[PlanArray::Order, PlanArray::SegmentStart]);
    let rows = context.spec.extent(rows_of(context, group));
    let mut writer = std::mem::take(&mut context.writer);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let chain = Chain { context, group, schedule };
    let units = rows * chain.tiles() * group.chunks.len() as u64;
    let block = context.kernel.order.block;
    writer.early_entry(chain.bounds(), name, &declared, |writer| {
        if !group.terms.is_empty() {
            writer.line(format!("RL_SHARED(rl_u32, positions, {block});"));
        }
        writer.block(format!("for (rl_u64 work = rl_block(); work < {units}; work += rl_blocks())"), |writer| {
            chain.split_work(writer, "row");
            match group.terms.len() {
                0 => chain.zeros(writer, "total"),
                1 => row_term(&chain, writer, 0),
                terms => {
                    chain.zeros(writer, "all");
                    (0..terms).for_each(|term| writer.block("", |writer| add_term(&chain, writer, term)));
                }
            }
            let total = if group.terms.len() > 1 { "all" } else { "total" };
            writer.block(chain.inside(), |writer| chain.store(writer, total, "row"));
        });
    });
    let count = Count::Fixed(units);
    finish(context, writer, name, schedule, count, params, "a block is one row × one tile of columns");
}

/// Adds the whole sum of one term to `all`; the first one is it.
fn add_term(chain: &Chain<'_, '_>, writer: &mut Writer, term: usize) {
    row_term(chain, writer, term);
    let add = if term == 0 { "total[lane]" } else { "all[lane] + total[lane]" };
    let columns = chain.schedule.columns;
    writer.line(format!("RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) all[lane] = {add};"));
}

/// `total`: the whole sum of one term.
fn row_term(chain: &Chain<'_, '_>, writer: &mut Writer, term: usize) {
    let row = chain.group.terms[term].row;
    let order = chain.context.plan_name(row, PlanArray::Order);
    let start = chain.context.plan_name(row, PlanArray::SegmentStart);
    let block = chain.context.kernel.order.block;
    let columns = chain.schedule.columns;
    chain.zeros(writer, "total");
    writer.line(format!("const rl_u64 end = rl_load<rl_u32>({start} + row + 1);"));
    let head = format!("for (rl_u64 begin = rl_load<rl_u32>({start} + row); begin < end; begin += {block})");
    writer.block(head, |writer| {
        writer.line(format!("const rl_u32 count = end - begin < {block} ? end - begin : {block};"));
        chain.stage_positions(writer, &order);
        writer.block(chain.inside(), |writer| {
            chain.zeros(writer, "sum");
            chain.leaf_pointers(writer, term);
            chain.chain(writer, term);
            writer.line(format!(
                "RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) total[lane] = total[lane] + sum[lane];"
            ));
        });
    });
}
