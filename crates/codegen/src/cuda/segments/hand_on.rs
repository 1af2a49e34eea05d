//! Some blocks of positions that follow each other in the plan × one tile of columns. The sum of
//! a row that goes on is handed on to whoever has the next ones.

use super::super::{Context, Count, Param, PlanArray, Scratch, Step};
use super::chain::Chain;
use super::entry::{finish, params, store_sums, sums_at, sums_width};
use super::group::Group;
use super::{SegmentsSchedule, Writer};

pub(super) fn hand_on(context: &mut Context<'_>, group: &Group, name: &str, schedule: SegmentsSchedule) {
    let row = group.terms[0].row;
    let run = u64::from(schedule.run);
    let chunks = group.chunks.len() as u64;
    let each = Chain { context, group, schedule }.tiles() * chunks;
    let mut params =
        params(group, &[PlanArray::Order, PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::BlockRow]);
    params.push(Param::Blocks(row));
    let accumulate = context.kernel.order.accumulate;
    let mut scratch = |name, each, element_bytes| {
        params.push(Param::Scratch(context.scratch.len()));
        context.scratch.push(Scratch { name, elements: Count::Blocks { row, per: run, each }, element_bytes });
    };
    scratch("totals", chunks * context.spec.hidden, u64::from(accumulate.bytes()));
    // The next ticket, then whether each piece of work has handed on: the last runs never do.
    scratch("handed", each, 8);
    context.steps.push(Step::Fill { scratch: context.scratch.len() - 1, byte: 0 });
    let mut writer = std::mem::take(&mut context.writer);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let chain = Chain { context, group, schedule };
    let SegmentsSchedule { threads, columns, .. } = schedule;
    writer.early_entry(chain.bounds(), name, &declared, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, positions, {});", context.kernel.order.block));
        writer.line(format!("RL_SHARED({}, kept, {});", chain.accumulator(), schedule.run * threads * columns));
        writer.line("RL_SHARED(rl_u64, ticket, 1);");
        writer.line(format!("const rl_u64 runs = (blocks + {}) / {run};", run - 1));
        writer.block("for (;;)", |writer| {
            take_work(&chain, writer, each);
            sum_run(&chain, writer);
            settle(&chain, writer, each);
        });
    });
    let count = Count::Blocks { row, per: run, each };
    let what = format!(
        "a block is a run of blocks of positions × one tile of columns, then another; what it has of a row that goes on it hands on (runs of {run})"
    );
    finish(context, writer, name, schedule, count, params, &what);
}

/// `work`: the next piece that nobody has. Who waits has a later one than whom it waits for,
/// and that one is being worked on: it comes to an end however many blocks run at once.
fn take_work(chain: &Chain<'_, '_>, writer: &mut Writer, each: u64) {
    let run = chain.schedule.run;
    writer.line("rl_barrier();");
    writer.line("if (rl_thread() == 0) ticket[0] = rl_ticket(handed);");
    writer.line("rl_barrier();");
    writer.line("const rl_u64 work = ticket[0];");
    writer.line(format!("if (work >= runs * {each}) return;"));
    chain.split_work(writer, "run");
    writer.line(format!("const rl_u64 run_begin = run * {run};"));
    writer.line(format!("const rl_u64 run_end = run_begin + {run} < blocks ? run_begin + {run} : blocks;"));
}

/// `total` of the row that began last in this run, every row that began and ends in it stored;
/// sums of a row that began earlier are kept, `before` of them.
fn sum_run(chain: &Chain<'_, '_>, writer: &mut Writer) {
    let SegmentsSchedule { threads, columns, .. } = chain.schedule;
    let starts = chain.context.plan_name(chain.group.terms[0].row, PlanArray::BlockStart);
    let ty = chain.accumulator();
    chain.zeros(writer, "total");
    writer.line("rl_u32 before = 0;");
    writer.block("for (rl_u64 block = run_begin; block < run_end; ++block)", |writer| {
        chain.row_of_block(writer);
        writer.line(format!("const bool ends = rl_load<rl_u32>({starts} + row + 1) == block + 1;"));
        chain.sum_of_block(writer);
        writer.block("if (first < run_begin)", |writer| {
            writer.line(format!(
                "RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) kept[(before * {columns} + lane) * {threads} + rl_thread()] = sum[lane];"
            ));
            writer.line("++before;");
            writer.line("continue;");
        });
        writer.line(format!(
            "RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) total[lane] = (block == first ? {ty}() : total[lane]) + sum[lane];"
        ));
        writer.block(format!("if (ends && column < {})", chain.context.spec.hidden), |writer| {
            chain.store(writer, "total", "row");
        });
    });
}

/// Hands on what goes on, at once where it began in this run; takes what began earlier, adds
/// what was kept, and stores it or hands it on.
fn settle(chain: &Chain<'_, '_>, writer: &mut Writer, each: u64) {
    let SegmentsSchedule { threads, columns, .. } = chain.schedule;
    let plan = |array| chain.context.plan_name(chain.group.terms[0].row, array);
    let (starts, rows) = (plan(PlanArray::BlockStart), plan(PlanArray::BlockRow));
    writer.line(format!(
        "const bool goes_on = rl_load<rl_u32>({starts} + rl_load<rl_u32>({rows} + run_end - 1) + 1) > run_end;"
    ));
    writer.line("const bool through = before == run_end - run_begin;");
    writer.block("if (goes_on && !through)", |writer| hand(chain, writer));
    writer.line("if (before == 0) continue;");
    writer.line(format!("if (rl_thread() == 0) rl_await(handed + 1 + work - {each});"));
    writer.line("rl_barrier();");
    writer.line("rl_fence();");
    writer.block(chain.inside(), |writer| {
        let width = sums_width(chain);
        let vector = format!("rl_vector<{}, {width}>", chain.accumulator());
        writer.line(format!("const {}* const earlier = {};", chain.accumulator(), sums_at(chain, "totals", "(run - 1)")));
        writer.block(format!("RL_UNROLL for (int piece = 0; piece < {columns}; piece += {width})"), |writer| {
            writer.line(format!(
                "const {vector} v = rl_load_fresh(reinterpret_cast<const {vector}*>(earlier + piece));"
            ));
            writer.line(format!(
                "RL_UNROLL for (int lane = 0; lane < {width}; ++lane) total[piece + lane] = v.lane[lane];"
            ));
        });
        writer.line(format!(
            "for (rl_u32 at = 0; at < before; ++at) RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) total[lane] = total[lane] + kept[(at * {columns} + lane) * {threads} + rl_thread()];"
        ));
    });
    writer.block("if (goes_on && through)", |writer| {
        hand(chain, writer);
        writer.line("continue;");
    });
    writer.line(format!("const rl_u64 row = rl_load<rl_u32>({rows} + run_begin);"));
    writer.block(chain.inside(), |writer| chain.store(writer, "total", "row"));
}

/// `total`, to the next run.
fn hand(chain: &Chain<'_, '_>, writer: &mut Writer) {
    store_sums(chain, writer, "total", "handed_on", &sums_at(chain, "totals", "run"));
    writer.line("rl_fence();");
    writer.line("rl_barrier();");
    writer.line("if (rl_thread() == 0) rl_announce(handed + 1 + work);");
}
