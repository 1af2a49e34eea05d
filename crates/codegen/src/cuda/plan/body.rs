//! The entries of a plan.

use super::super::{Count, Param, PlanArray, Writer, names};
use super::{COUNTS, DIGIT_BITS, DIGITS, ERROR, ITEMS, OTHER_ORDER, Plan, THREADS, TILE, array, input};

/// Per row: its threads cover them all.
fn row_grid(rows: u64) -> Count {
    Count::Fixed(rows.div_ceil(u64::from(THREADS)))
}

/// `for` over all threads of the grid, one `name` below `limit` each.
fn each(writer: &mut Writer, name: &str, limit: &str, inside: impl FnOnce(&mut Writer)) {
    let threads = THREADS;
    let head = format!(
        "for (rl_u64 {name} = rl_block() * {threads} + rl_thread(); {name} < {limit}; {name} += rl_blocks() * {threads})"
    );
    writer.block(head, inside);
}

/// What the entries share: `key`, `scan` and the sort of a tile.
pub(super) fn helpers(plan: &mut Plan<'_>) {
    let rows = plan.shape.rows;
    let writer = &mut plan.writer;
    writer.line("");
    writer.line("// What a position is sorted by: its row; behind all rows where it has none.");
    writer.block("RL_INLINE rl_u32 key(const rl_u32* rows, rl_u32 position)", |writer| {
        writer.line("const rl_u32 row = rl_load<rl_u32>(rows + position);");
        writer.line(format!("return row < {rows} ? row : {rows};"));
    });
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
    digit_counts(writer);
    scatter_tile(writer);
}

/// How often each digit occurs among the thread's items, in `tile_counts[digit][thread]`.
fn digit_counts(writer: &mut Writer) {
    writer.line("");
    writer.line("// Counts the digits of this thread's items of a tile; an order of null is the positions themselves.");
    let head = "RL_INLINE void count_digits(rl_u32* tile_counts, const rl_u32* rows, const rl_u32* from, rl_u64 positions, rl_u64 tile, rl_u32 shift)";
    writer.block(head, |writer| {
        writer.line("const rl_u32 thread = rl_thread();");
        writer.line("rl_barrier();");
        writer.line(format!(
            "for (rl_u32 digit = 0; digit < {DIGITS}; ++digit) tile_counts[digit * {THREADS} + thread] = 0;"
        ));
        items(writer, |writer| {
            writer.line("const rl_u32 position = from ? rl_load<rl_u32>(from + at) : static_cast<rl_u32>(at);");
            writer.line(format!("tile_counts[(key(rows, position) >> shift) % {DIGITS} * {THREADS} + thread] += 1;"));
        });
        writer.line("rl_barrier();");
    });
}

/// `at` over this thread's items of a tile, ascending.
fn items(writer: &mut Writer, inside: impl FnOnce(&mut Writer)) {
    writer.line(format!("const rl_u64 begin = tile * {TILE} + thread * {ITEMS};"));
    let head = format!("for (rl_u64 at = begin; at < begin + {ITEMS} && at < positions; ++at)");
    writer.block(head, inside);
}

fn scatter_tile(writer: &mut Writer) {
    writer.line("");
    writer.line("// Moves a tile's items behind all items of smaller digits and of the same digit before them.");
    let head = "RL_INLINE void scatter_tile(rl_u32* tile_counts, rl_u32* sums, rl_u32* digit_start, const rl_u32* rows, const rl_u32* from, rl_u32* to, const rl_u32* offsets, rl_u64 positions, rl_u64 tile, rl_u32 shift)";
    writer.block(head, |writer| {
        writer.line("const rl_u32 thread = rl_thread();");
        writer.line("count_digits(tile_counts, rows, from, positions, tile, shift);");
        writer.line("// Exclusive sums over digits, then threads; each thread owns a run of entries.");
        let run = DIGITS;
        writer.line(format!("rl_u32* const own = tile_counts + thread * {run};"));
        writer.line("rl_u32 value = 0, total;");
        writer.line(format!("for (rl_u32 entry = 0; entry < {run}; ++entry) value += own[entry];"));
        writer.line("rl_u32 before = scan(sums, value, total);");
        writer.block(format!("for (rl_u32 entry = 0; entry < {run}; ++entry)"), |writer| {
            writer.line("const rl_u32 one = own[entry];");
            writer.line("own[entry] = before;");
            writer.line("before += one;");
        });
        writer.line("rl_barrier();");
        writer.line(format!("if (thread < {DIGITS}) digit_start[thread] = tile_counts[thread * {THREADS}];"));
        writer.line("rl_barrier();");
        writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
        items(writer, |writer| {
            writer.line("const rl_u32 position = from ? rl_load<rl_u32>(from + at) : static_cast<rl_u32>(at);");
            writer.line(format!("const rl_u32 digit = (key(rows, position) >> shift) % {DIGITS};"));
            writer
                .line(format!("const rl_u32 place = tile_counts[digit * {THREADS} + thread]++ - digit_start[digit];"));
            writer.line("rl_store(to + rl_load<rl_u32>(offsets + digit * tiles + tile) + place, position);");
        });
    });
}

/// Checks each index in its own bounds and combines them.
pub(super) fn rows(plan: &mut Plan<'_>) {
    let mut params = Vec::new();
    for term in 0..plan.shape.terms.len() {
        params.push(Param::Input { input: input(term), element: 0 });
        params.push(Param::InputStride { input: input(term), element: 0 });
    }
    params.extend([array(PlanArray::Rows), Param::Scratch(ERROR), Param::Positions]);
    let shape = plan.shape;
    let grid = Count::Positions { per: u64::from(THREADS), each: 1 };
    plan.entry("plan_rows", "checks each index in its own bounds and combines them", grid, &params, |writer| {
        each(writer, "position", "positions", |writer| {
            let mut sum = Vec::new();
            let mut pads = Vec::new();
            writer.line("rl_u64 bad = ~0ull;");
            for (at, term) in shape.terms.iter().enumerate().rev() {
                let ty = names::int(term.ty);
                writer.line(format!("const {ty} value{at} = rl_load<{ty}>(index{at} + position * index{at}_stride);"));
                let pad = term.pad.map_or(String::new(), |pad| format!("value{at} != {} && ", names::integer(pad)));
                writer.line(format!("if ({pad}static_cast<rl_u64>(value{at}) >= {}) bad = {at};", term.bound));
            }
            for (at, term) in shape.terms.iter().enumerate() {
                let value = format!("static_cast<rl_u64>(value{at})");
                sum.push(if term.factor == 1 { value } else { format!("{value} * {}", term.factor) });
                pads.extend(term.pad.map(|pad| format!("value{at} == {}", names::integer(pad))));
            }
            if shape.offset != 0 {
                sum.push(shape.offset.to_string());
            }
            writer.line(format!("rl_u32 row = static_cast<rl_u32>({});", sum.join(" + ")));
            if !pads.is_empty() {
                writer.line(format!("if ({}) row = 0xFFFFFFFF;", pads.join(" || ")));
            }
            writer.block("if (bad != ~0ull)", |writer| {
                writer.line("rl_atomic_min(error, position * 256 + bad);");
                writer.line("row = 0;");
            });
            writer.line("rl_store(rows + position, row);");
        });
    });
}

/// One digit: count per tile, scan over digits and tiles, scatter.
pub(super) fn sort_pass(plan: &mut Plan<'_>, pass: u32, passes: u32) {
    // The last pass writes the order itself.
    let target = |pass: u32| {
        if (passes - 1 - pass).is_multiple_of(2) { array(PlanArray::Order) } else { Param::Scratch(OTHER_ORDER) }
    };
    let to = target(pass);
    let from = pass.checked_sub(1).map(target);
    let name = |param| if param == array(PlanArray::Order) { "order" } else { "other_order" };
    let from_name = from.map_or("static_cast<const rl_u32*>(nullptr)", name);
    let shift = pass * DIGIT_BITS;
    let tiles = Count::Positions { per: TILE, each: 1 };
    let mut params: Vec<Param> = [array(PlanArray::Rows)].into_iter().chain(from).collect();
    params.extend([Param::Scratch(COUNTS), Param::Positions]);
    let count = format!("plan_count{pass}");
    plan.entry(&count, "counts one digit of the keys in each tile of positions", tiles, &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, tile_counts, {});", DIGITS * u64::from(THREADS)));
        writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
        writer.block("for (rl_u64 tile = rl_block(); tile < tiles; tile += rl_blocks())", |writer| {
            writer.line(format!("count_digits(tile_counts, rows, {from_name}, positions, tile, {shift});"));
            writer.block(format!("if (rl_thread() < {DIGITS})"), |writer| {
                writer.line("rl_u32 sum = 0;");
                writer.line(format!("for (rl_u32 thread = 0; thread < {THREADS}; ++thread) sum += tile_counts[rl_thread() * {THREADS} + thread];"));
                writer.line("rl_store(counts + rl_thread() * tiles + tile, sum);");
            });
        });
    });
    offsets(plan);
    let mut params: Vec<Param> = [array(PlanArray::Rows)].into_iter().chain(from).collect();
    params.extend([to, Param::Scratch(COUNTS), Param::Positions]);
    let scatter = format!("plan_scatter{pass}");
    plan.entry(&scatter, "moves positions to their places by that digit", tiles, &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, tile_counts, {});", DIGITS * u64::from(THREADS)));
        writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
        writer.line(format!("RL_SHARED(rl_u32, digit_start, {DIGITS});"));
        writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
        writer.block("for (rl_u64 tile = rl_block(); tile < tiles; tile += rl_blocks())", |writer| {
            writer.line(format!(
                "scatter_tile(tile_counts, sums, digit_start, rows, {from_name}, {}, counts, positions, tile, {shift});",
                name(to)
            ));
        });
    });
}

/// Counts to the places where their items go: exclusive sums over digits, then tiles.
fn offsets(plan: &mut Plan<'_>) {
    let params = [Param::Scratch(COUNTS), Param::Positions];
    plan.entry("plan_offsets", "turns counts into places", Count::Fixed(1), &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
        writer.line(format!("const rl_u64 entries = (positions + {}) / {TILE} * {DIGITS};", TILE - 1));
        writer.line("rl_u32 carry = 0;");
        writer.block(format!("for (rl_u64 begin = 0; begin < entries; begin += {THREADS})"), |writer| {
            writer.line("const rl_u64 entry = begin + rl_thread();");
            writer.line("const rl_u32 value = entry < entries ? rl_load_fresh(counts + entry) : 0;");
            writer.line("rl_u32 total;");
            writer.line("const rl_u32 before = scan(sums, value, total);");
            writer.line("if (entry < entries) rl_store(counts + entry, carry + before);");
            writer.line("carry += total;");
        });
    });
}

/// Where each row's positions begin: a binary search in the sorted keys.
pub(super) fn segments(plan: &mut Plan<'_>) {
    let params = [array(PlanArray::Rows), array(PlanArray::Order), array(PlanArray::SegmentStart), Param::Positions];
    let rows = plan.shape.rows;
    plan.entry("plan_segments", "finds where each row's positions begin", row_grid(rows + 1), &params, |writer| {
        each(writer, "row", &(rows + 1).to_string(), |writer| {
            writer.line("rl_u64 low = 0, high = positions;");
            writer.block("while (low < high)", |writer| {
                writer.line("const rl_u64 middle = low + (high - low) / 2;");
                writer.line("const bool before = key(rows, rl_load<rl_u32>(order + middle)) < row;");
                writer.line("low = before ? middle + 1 : low;");
                writer.line("high = before ? high : middle;");
            });
            writer.line("rl_store(segment_start + row, static_cast<rl_u32>(low));");
        });
    });
}

/// Where each row's blocks and partial sums begin.
pub(super) fn blocks(plan: &mut Plan<'_>) {
    let params = [array(PlanArray::SegmentStart), array(PlanArray::BlockStart), array(PlanArray::PartialStart)];
    let (rows, block) = (plan.shape.rows, plan.shape.block);
    plan.entry("plan_blocks", "divides rows into blocks of positions", Count::Fixed(1), &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
        writer.line("rl_u32 blocks = 0, partials = 0;");
        writer.block(format!("for (rl_u64 begin = 0; begin < {rows}; begin += {THREADS})"), |writer| {
            writer.line("const rl_u64 row = begin + rl_thread();");
            writer.line(format!("const bool inside = row < {rows};"));
            writer.line("const rl_u32 length = inside ? rl_load<rl_u32>(segment_start + row + 1) - rl_load<rl_u32>(segment_start + row) : 0;");
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
        });
    });
}

/// The row of each block.
pub(super) fn block_rows(plan: &mut Plan<'_>) {
    let params = [array(PlanArray::BlockStart), array(PlanArray::BlockRow)];
    let rows = plan.shape.rows;
    plan.entry("plan_block_rows", "names the row of each block", row_grid(rows), &params, |writer| {
        each(writer, "row", &rows.to_string(), |writer| {
            writer.line("const rl_u32 end = rl_load<rl_u32>(block_start + row + 1);");
            writer.line("for (rl_u32 block = rl_load<rl_u32>(block_start + row); block < end; ++block) rl_store(block_row + block, static_cast<rl_u32>(row));");
        });
    });
}
