//! The entries of each kind of schedule.

use super::super::{Context, Count, Entry, Param, PlanArray, Scratch, Step};
use super::chain::Chain;
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

/// One row × one tile of columns: every block of positions of every term.
pub(super) fn rows(context: &mut Context<'_>, group: &Group, name: &str, schedule: SegmentsSchedule) {
    let params = params(group, &[PlanArray::Order, PlanArray::SegmentStart]);
    let rows = context.spec.extent(rows_of(context, group));
    let mut writer = std::mem::take(&mut context.writer);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let chain = Chain { context, group, schedule };
    let units = rows * chain.tiles() * group.chunks.len() as u64;
    let block = context.kernel.order.block;
    writer.entry(chain.bounds(), name, &declared, |writer| {
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
    writer.entry(chain.bounds(), name, &declared, |writer| {
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
    let count = Count::Blocks { row, each: tiles * chunks };
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
    let context = chain.context;
    let row = chain.group.terms[0].row;
    let plan = |array| context.plan_name(row, array);
    let block = context.kernel.order.block;
    let (starts, segments) = (plan(PlanArray::BlockStart), plan(PlanArray::SegmentStart));
    chain.split_work(writer, "block");
    writer.line(format!("const rl_u64 row = rl_load<rl_u32>({} + block);", plan(PlanArray::BlockRow)));
    writer.line(format!("const rl_u32 first = rl_load<rl_u32>({starts} + row);"));
    if context.spec.s_class != SClass::OneBlock {
        writer.line(format!("const rl_u32 row_blocks = rl_load<rl_u32>({starts} + row + 1) - first;"));
    }
    writer.line(format!(
        "const rl_u32 begin = rl_load<rl_u32>({segments} + row) + (static_cast<rl_u32>(block) - first) * {block};"
    ));
    writer.line(format!("const rl_u32 left = rl_load<rl_u32>({segments} + row + 1) - begin;"));
    writer.line(format!("const rl_u32 count = left < {block} ? left : {block};"));
    chain.stage_positions(writer, &plan(PlanArray::Order));
    chain.zeros(writer, "sum");
    writer.block(chain.inside(), |writer| {
        chain.leaf_pointers(writer, 0);
        chain.chain(writer, 0);
    });
}

/// `(slot * chunks + chunk) * H + column`: where a block's partial sums lie.
fn partial_at(chain: &Chain<'_, '_>, slot: &str) -> String {
    let chunks = chain.group.chunks.len();
    let chunk = if chunks > 1 { format!("({slot} * {chunks} + chunk)") } else { slot.to_owned() };
    format!("partials + {chunk} * {} + column", chain.context.spec.hidden)
}

fn partial_width(chain: &Chain<'_, '_>) -> u32 {
    (16 / chain.context.kernel.order.accumulate.bytes()).min(chain.schedule.columns)
}

fn store_partial(chain: &Chain<'_, '_>, writer: &mut Writer) {
    let row = chain.group.terms[0].row;
    let partial_start = chain.context.plan_name(row, PlanArray::PartialStart);
    writer.line(format!("const rl_u64 slot = rl_load<rl_u32>({partial_start} + row);"));
    writer.block(chain.inside(), |writer| {
        let ty = chain.accumulator();
        writer.line(format!("{ty}* const partial = {};", partial_at(chain, "(slot + block - first)")));
        chain.pieces(writer, partial_width(chain), |lane| format!("sum[{lane}]"), ty, "partial", "rl_store");
    });
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
    let width = partial_width(chain);
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
    writer.entry(chain.bounds(), name, &declared, |writer| {
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

fn rows_of(context: &Context<'_>, group: &Group) -> crate::ir::Extent {
    match context.kernel.outputs[group.output].kind {
        crate::ir::OutputKind::Table { rows, .. } => rows,
        crate::ir::OutputKind::Rows(_) => unreachable!("a sum over positions is a table"),
    }
}

/// The tensors summed, the plans they are summed by, and the output.
fn params(group: &Group, arrays: &[PlanArray]) -> Vec<Param> {
    let mut params = Vec::new();
    let mut add = |param| {
        if !params.contains(&param) {
            params.push(param);
        }
    };
    for leaf in group.leaves.iter().flatten().flat_map(|(_, leaves)| leaves) {
        add(leaf.pointer());
        add(leaf.stride());
    }
    for leaf in group.leaves.iter().flatten().flat_map(|(_, leaves)| leaves) {
        if let Some(row) = leaf.row {
            add(Param::Plan { row, array: PlanArray::Rows });
        }
    }
    for term in &group.terms {
        arrays.iter().for_each(|&array| add(Param::Plan { row: term.row, array }));
    }
    let output = group.output as u32;
    add(Param::Output { output, tensor: 0 });
    add(Param::OutputStride { output, tensor: 0 });
    params
}

fn finish(
    context: &mut Context<'_>,
    writer: Writer,
    name: &str,
    schedule: SegmentsSchedule,
    grid: Count,
    params: Vec<Param>,
    what: &str,
) {
    context.writer = writer;
    context.entries.push((name.to_owned(), what.to_owned()));
    context.steps.push(Step::Launch(Entry { name: name.to_owned(), threads: schedule.threads, grid, params }));
}
