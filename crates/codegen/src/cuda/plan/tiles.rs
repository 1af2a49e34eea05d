//! The kind `tiles`: a block of threads for each tile of positions; one block turns counts into places.

use super::super::{Count, Param, PlanArray, Writer};
use super::{COUNTS, ERRORS, Plan, PlanShape, Scratch, Sort, TOTALS, array, blocks, rows, sort, totals};

/// Entries of counts that a thread scans at a time.
const RUN: u32 = 8;

/// Writes all entries; gives their scratch.
pub(super) fn write(plan: &mut Plan, shape: &PlanShape, sort: &Sort) -> Vec<Scratch> {
    blocks::helper(plan);
    sort.tally_helper(&mut plan.writer);
    sort.rank_helper(&mut plan.writer);
    check(plan, shape, sort);
    for pass in 0..sort.digits.passes {
        if pass > 0 {
            count(plan, sort, pass);
        }
        offsets(plan, sort);
        scatter(plan, sort, pass);
    }
    if sort.digits.passes > 1 {
        blocks::many_rows(plan, &[sort.count_tiles()], "tiles");
    }
    let digits = sort.digits.values;
    vec![
        totals(),
        Scratch { name: "errors", elements: sort.tiles(), element_bytes: 8 },
        Scratch { name: "counts", elements: Count::Positions { per: sort.tile(), each: digits }, element_bytes: 4 },
    ]
}

/// Every tile of positions, one block after the other.
fn each_tile(writer: &mut Writer, sort: &Sort, inside: impl FnOnce(&mut Writer)) {
    writer.line(sort.count_tiles());
    writer.block("for (rl_u64 tile = rl_block(); tile < tiles; tile += rl_blocks())", inside);
}

/// How often each digit occurs in the tile.
fn store_counts(writer: &mut Writer, sort: &Sort) {
    writer.line("const rl_u32 count = tally(places, sums, digits);");
    let digits = sort.digits.values;
    writer.line(format!("if (rl_thread() < {digits}) rl_store(counts + rl_thread() * tiles + tile, count);"));
}

/// Rows from indices; the smallest bad position of each tile, and the counts of its first digit.
fn check(plan: &mut Plan, shape: &PlanShape, sort: &Sort) {
    let mut params = rows::params(shape);
    params.extend([array(PlanArray::Rows), Param::Scratch(ERRORS), Param::Scratch(COUNTS), Param::Positions]);
    let what = "checks each index in its own bounds, combines them and counts rows in each tile of positions";
    plan.entry("plan_rows", what, sort.tiles(), &params, |writer| {
        sort.shared(writer);
        writer.line("RL_SHARED(rl_u64, bad, 1);");
        each_tile(writer, sort, |writer| {
            writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
            writer.line("rl_barrier();");
            writer.line(format!("rl_u32 digits[{}];", sort.items));
            rows::items(writer, shape, sort, &sort.across());
            store_counts(writer, sort);
            writer.line("if (rl_thread() == 0) rl_store(errors + tile, bad[0]);");
        });
    });
}

/// Counts a later digit in each tile of the order so far.
fn count(plan: &mut Plan, sort: &Sort, pass: u32) {
    let mut params = sort.sources(pass);
    params.extend([Param::Scratch(COUNTS), Param::Positions]);
    let what = "counts one digit of the rows in each tile of the order so far";
    plan.entry(&format!("plan_count{pass}"), what, sort.tiles(), &params, |writer| {
        sort.shared(writer);
        each_tile(writer, sort, |writer| {
            writer.line(sort.arrays());
            sort.ordered(writer, pass, &sort.across());
            store_counts(writer, sort);
        });
    });
}

/// Counts to the places where their items go: exclusive sums over digits, then tiles.
/// Where rows are one digit, their segments and blocks too.
fn offsets(plan: &mut Plan, sort: &Sort) {
    let mut params = vec![Param::Scratch(COUNTS)];
    let alone = sort.digits.passes == 1;
    if alone {
        let arrays = [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart];
        params.extend(arrays.map(array));
        params.extend([Param::Scratch(ERRORS), Param::Scratch(TOTALS)]);
    }
    params.push(Param::Positions);
    let what = if alone { "turns counts into places, segments and blocks" } else { "turns counts into places" };
    let (digits, rows, threads) = (sort.digits.values, plan.rows, sort.threads);
    plan.entry("plan_offsets", what, Count::Fixed(1), &params, |writer| {
        writer.line(format!("RL_SHARED(rl_u32, sums, {});", 2 * threads));
        writer.line(sort.count_tiles());
        writer.line("rl_u32 carry = 0;");
        let round = threads * RUN;
        writer.block(format!("for (rl_u64 begin = 0; begin < tiles * {digits}; begin += {round})"), |writer| {
            writer.line(format!("const rl_u64 first = begin + rl_thread() * {RUN};"));
            writer.line(format!("rl_u32 own[{RUN}], sum = 0, total;"));
            let items = format!("RL_UNROLL for (int item = 0; item < {RUN}; ++item)");
            writer.block(&items, |writer| {
                let load = "rl_load_fresh(counts + first + item)";
                writer.line(format!("own[item] = first + item < tiles * {digits} ? {load} : 0;"));
                writer.line("sum += own[item];");
            });
            writer.line("rl_u32 before = carry + scan(sums, sum, total);");
            writer.block(&items, |writer| {
                writer.line(format!("if (first + item < tiles * {digits}) rl_store(counts + first + item, before);"));
                writer.line("before += own[item];");
            });
            writer.line("carry += total;");
        });
        if alone {
            writer.line("rl_barrier();");
            let end = match sort.digits.padded {
                true => format!("rl_load_fresh(counts + {rows} * tiles)"),
                false => "carry".to_owned(),
            };
            writer.block(format!("for (rl_u32 row = rl_thread(); row <= {rows}; row += {threads})"), |writer| {
                writer.line(format!(
                    "rl_store(segment_start + row, row < {rows} ? rl_load_fresh(counts + row * tiles) : {end});"
                ));
            });
            writer.line("rl_barrier();");
            blocks::call(writer);
            blocks::smallest_error(writer, threads, "tiles");
        }
    });
}

/// Moves the positions of each tile behind all of smaller digits, and of the same digit before them.
fn scatter(plan: &mut Plan, sort: &Sort, pass: u32) {
    let to = sort.target(pass);
    let mut params = sort.sources(pass);
    params.extend([to, Param::Scratch(COUNTS)]);
    let alone = sort.digits.passes == 1;
    if alone {
        params.extend([array(PlanArray::BlockStart), array(PlanArray::BlockRow)]);
    }
    params.push(Param::Positions);
    let what = match alone {
        true => "moves positions to their places and names the row of each block",
        false => "moves positions to their places by one digit",
    };
    let (rows, threads, digits) = (plan.rows, sort.threads, sort.digits.values);
    plan.entry(&format!("plan_scatter{pass}"), what, sort.tiles(), &params, |writer| {
        sort.shared(writer);
        writer.line(format!("RL_SHARED(rl_u32, begin, {digits});"));
        each_tile(writer, sort, |writer| {
            writer.line(sort.arrays());
            sort.ordered(writer, pass, &sort.neighbours());
            writer.line("rl_u32 total;");
            writer.line("rank(places, sums, digits, total);");
            // Before places are taken: where the tile's first of the digit goes, less its rank.
            writer.line(format!(
                "if (rl_thread() < {digits}) begin[rl_thread()] = rl_load<rl_u32>(counts + rl_thread() * tiles + tile) - places[rl_thread() * {threads}];"
            ));
            writer.line("rl_barrier();");
            sort.move_items(writer, sort::name(to));
        });
        if alone {
            let all = format!("rl_blocks() * {threads}");
            blocks::name_rows(writer, rows, threads, &all, |at| format!("rl_load<rl_u32>(block_start + {at})"));
        }
    });
}
