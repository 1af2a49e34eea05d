//! One block of positions of a row × one tile of columns. Partial sums of longer rows are
//! folded by the last block to arrive, or by a second entry.

use super::super::{Context, Count, Param, PlanArray, Scratch, Step};
use super::chain::Chain;
use super::entry::{finish, params, rows_of, store_sums, sums_at, sums_width};
use super::group::Group;
use super::{SegmentsSchedule, Writer};
use crate::spec::SClass;

/// Who folds the partial sums of a row of several blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// The last block to arrive.
    Last,
    /// A second entry.
    Second,
}

/// One block of positions of a row × one tile of columns. A row of one block is
/// stored at once; partial sums of longer ones are folded left to right.
pub(super) fn blocks(context: &mut Context<'_>, group: &Group, name: &str, schedule: SegmentsSchedule, fold: Fold) {
    let row = group.terms[0].row;
    let one_block = context.spec.s_class == SClass::OneBlock;
    let chunks = group.chunks.len() as u64;
    let tiles = Chain { context, group, schedule }.tiles();
    let mut arrays = vec![PlanArray::Order, PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::BlockRow];
    if !one_block {
        arrays.push(PlanArray::PartialStart);
    }
    let mut params = params(group, &arrays);
    params.push(Param::Blocks(row));
    let mut partials = None;
    if !one_block {
        let accumulate = context.kernel.order.accumulate;
        partials = Some(context.scratch.len());
        params.push(Param::Scratch(context.scratch.len()));
        let each = chunks * context.spec.hidden;
        let elements = Count::Partials { row, each };
        context.scratch.push(Scratch { name: "partials", elements, element_bytes: u64::from(accumulate.bytes()) });
        if fold == Fold::Last {
            params.push(Param::Scratch(context.scratch.len()));
            context.steps.push(Step::Fill { scratch: context.scratch.len(), byte: 0 });
            let elements = Count::Partials { row, each: chunks * tiles };
            context.scratch.push(Scratch { name: "arrivals", elements, element_bytes: 4 });
        }
    }
    let mut writer = std::mem::take(&mut context.writer);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let chain = Chain { context, group, schedule };
    writer.early_entry(chain.bounds(), name, &declared, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, positions, {});", context.kernel.order.block));
        if !one_block && fold == Fold::Last {
            writer.line("RL_SHARED(rl_u32, arrived, 1);");
        }
        let each = tiles * chunks;
        writer.block(
            format!("for (rl_u64 work = rl_block(); work < blocks * {each}; work += rl_blocks())"),
            |writer| {
                block_sum(&chain, writer);
                if one_block {
                    writer.block(chain.inside(), |writer| chain.store(writer, "sum", "row"));
                    return;
                }
                writer.block("if (row_blocks == 1)", |writer| {
                    writer.block(chain.inside(), |writer| chain.store(writer, "sum", "row"));
                    writer.line("continue;");
                });
                store_partial(&chain, writer);
                if fold == Fold::Last {
                    arrive(&chain, writer);
                    writer.block(chain.inside(), |writer| fold_partials(&chain, writer));
                }
            },
        );
    });
    let count = Count::Blocks { row, per: 1, each: tiles * chunks };
    let what = match (one_block, fold) {
        (true, _) => "a block is one block of positions × one tile of columns; no row has two",
        (false, Fold::Last) => "a block is one block of positions × one tile of columns; the last of a row folds",
        (false, Fold::Second) => {
            "a block is one block of positions × one tile of columns; longer rows leave partial sums"
        }
    };
    finish(context, writer, name, schedule, count, params, what);
    if let (Some(partials), Fold::Second) = (partials, fold) {
        second(context, group, &format!("{name}_fold"), schedule, partials);
    }
}

/// `row`, its `row_blocks`, and `sum` over this block's positions.
fn block_sum(chain: &Chain<'_, '_>, writer: &mut Writer) {
    chain.split_work(writer, "block");
    chain.row_of_block(writer);
    if chain.context.spec.s_class != SClass::OneBlock {
        let starts = chain.context.plan_name(chain.group.terms[0].row, PlanArray::BlockStart);
        writer.line(format!("const rl_u32 row_blocks = rl_load<rl_u32>({starts} + row + 1) - first;"));
    }
    chain.sum_of_block(writer);
}

fn partial_at(chain: &Chain<'_, '_>, slot: &str) -> String {
    sums_at(chain, "partials", slot)
}

fn store_partial(chain: &Chain<'_, '_>, writer: &mut Writer) {
    let row = chain.group.terms[0].row;
    let partial_start = chain.context.plan_name(row, PlanArray::PartialStart);
    writer.line(format!("const rl_u64 slot = rl_load<rl_u32>({partial_start} + row);"));
    store_sums(chain, writer, "sum", "partial", &partial_at(chain, "(slot + block - first)"));
}

/// Leaves all but the last block of the row to arrive.
fn arrive(chain: &Chain<'_, '_>, writer: &mut Writer) {
    let tiles = chain.tiles();
    let chunks = chain.group.chunks.len() as u64;
    let place = if chunks > 1 { format!("chunk * {tiles} + tile") } else { "tile".to_owned() };
    writer.line("rl_fence();");
    writer.line("rl_barrier();");
    writer.line(format!(
        "if (rl_thread() == 0) arrived[0] = rl_atomic_add(arrivals + slot * {} + {place}, 1);",
        tiles * chunks
    ));
    writer.line("rl_barrier();");
    writer.line("if (arrived[0] + 1 < row_blocks) continue;");
    writer.line("rl_fence();");
}

/// Partial sums of a thread that are on their way together in a fold.
const FOLD_UNROLL: u32 = 8;

/// Folds the row's partial sums left to right from +0.0 and stores the total.
fn fold_partials(chain: &Chain<'_, '_>, writer: &mut Writer) {
    chain.zeros(writer, "total");
    writer.line("rl_u64 at = 0;");
    let head = format!("for (; at + {FOLD_UNROLL} <= row_blocks; at += {FOLD_UNROLL})");
    writer.block(head, |writer| fold_some(chain, writer, FOLD_UNROLL));
    writer.block("for (; at < row_blocks; ++at)", |writer| fold_some(chain, writer, 1));
    chain.store(writer, "total", "row");
}

fn fold_some(chain: &Chain<'_, '_>, writer: &mut Writer, unroll: u32) {
    let width = sums_width(chain);
    let pieces = chain.schedule.columns / width;
    let vector = format!("rl_vector<{}, {width}>", chain.accumulator());
    writer.line(format!("{vector} v0[{unroll}][{pieces}];"));
    let both = format!(
        "RL_UNROLL for (int u = 0; u < {unroll}; ++u) RL_UNROLL for (int piece = 0; piece < {pieces}; ++piece)"
    );
    writer.block(&both, |writer| {
        let address = partial_at(chain, "(slot + at + u)");
        writer.line(format!("const void* const partial = {address} + piece * {width};"));
        writer.line(format!("v0[u][piece] = rl_load_fresh(static_cast<const {vector}*>(partial));"));
    });
    writer.block(&both, |writer| {
        let place = if pieces == 1 { "lane".to_owned() } else { format!("piece * {width} + lane") };
        writer.line(format!(
            "RL_UNROLL for (int lane = 0; lane < {width}; ++lane) total[{place}] = total[{place}] + v0[u][piece].lane[lane];"
        ));
    });
}

/// The second entry: one row of several blocks × one tile of columns.
fn second(context: &mut Context<'_>, group: &Group, name: &str, schedule: SegmentsSchedule, partials: usize) {
    let row = group.terms[0].row;
    let plan = |array| Param::Plan { row, array };
    let output = group.output as u32;
    let params = vec![
        plan(PlanArray::BlockStart),
        plan(PlanArray::PartialStart),
        Param::Scratch(partials),
        Param::Output { output, tensor: 0 },
        Param::OutputStride { output, tensor: 0 },
    ];
    let rows = context.spec.extent(rows_of(context, group));
    let mut writer = std::mem::take(&mut context.writer);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let chain = Chain { context, group, schedule };
    let units = rows * chain.tiles() * group.chunks.len() as u64;
    writer.early_entry(chain.bounds(), name, &declared, |writer| {
        writer.block(format!("for (rl_u64 work = rl_block(); work < {units}; work += rl_blocks())"), |writer| {
            chain.split_work(writer, "row");
            let starts = context.plan_name(row, PlanArray::BlockStart);
            writer.line(format!(
                "const rl_u32 row_blocks = rl_load<rl_u32>({starts} + row + 1) - rl_load<rl_u32>({starts} + row);"
            ));
            writer.line(format!("if (row_blocks == 1 || column >= {}) continue;", context.spec.hidden));
            let partial_start = context.plan_name(row, PlanArray::PartialStart);
            writer.line(format!("const rl_u64 slot = rl_load<rl_u32>({partial_start} + row);"));
            fold_partials(&chain, writer);
        });
    });
    finish(
        context,
        writer,
        name,
        schedule,
        Count::Fixed(units),
        params,
        "folds the partial sums of a row of several blocks",
    );
}
