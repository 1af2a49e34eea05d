//! The kind `spans`: a block of threads for each span of tiles; each turns the counts of all into
//! its own places.

use super::super::{Count, Param, PlanArray, Writer};
use super::{COUNTS, ERRORS, Plan, PlanShape, Scratch, Sort, array, blocks, few_rows, rows, sort, totals};

/// Most spans: their counts are read by every block. Some for each multiprocessor.
const MOST: u64 = 512;

/// Writes all entries; gives their scratch.
pub(super) fn write(plan: &mut Plan, shape: &PlanShape, sort: &Sort) -> Vec<Scratch> {
    sort.tally_helper(&mut plan.writer);
    sort.rank_helper(&mut plan.writer);
    if sort.digits.passes == 1 {
        few_rows::helper(plan);
    } else {
        blocks::helper(plan);
    }
    check(plan, shape, sort);
    for pass in 0..sort.digits.passes {
        if pass > 0 {
            count(plan, sort, pass);
        }
        scatter(plan, sort, pass);
    }
    if sort.digits.passes > 1 {
        blocks::many_rows(plan, &count_spans(sort), "spans");
    }
    let elements = |each| Count::UpTo { per: sort.tile(), most: MOST, each };
    vec![
        totals(),
        Scratch { name: "errors", elements: elements(1), element_bytes: 8 },
        Scratch { name: "counts", elements: elements(sort.digits.values), element_bytes: 4 },
    ]
}

fn grid(sort: &Sort) -> Count {
    Count::UpTo { per: sort.tile(), most: MOST, each: 1 }
}

/// Tiles, tiles of a span, and spans.
fn count_spans(sort: &Sort) -> [String; 3] {
    [
        sort.count_tiles(),
        format!("const rl_u64 span = (tiles + {}) / {MOST};", MOST - 1),
        "const rl_u64 spans = (tiles + span - 1) / span;".to_owned(),
    ]
}

/// This block's span.
fn own_span(writer: &mut Writer, sort: &Sort) {
    count_spans(sort).iter().for_each(|line| writer.line(line));
    writer.line("if (rl_block() >= spans) return;");
    writer.line("const rl_u64 first = rl_block() * span, last = first + span < tiles ? first + span : tiles;");
}

/// How often each digit occurs in the span.
fn tally(writer: &mut Writer, sort: &Sort, items: impl FnOnce(&mut Writer)) {
    let digits = sort.digits.values;
    writer.line("rl_u32 count = 0;");
    writer.block("for (rl_u64 tile = first; tile < last; ++tile)", |writer| {
        items(writer);
        writer.line("count += tally(places, sums, digits);");
    });
    writer.line(format!("if (rl_thread() < {digits}) rl_store(counts + rl_block() * {digits} + rl_thread(), count);"));
}

/// Rows from indices; the smallest bad position of each span, and the counts of its first digit.
fn check(plan: &mut Plan, shape: &PlanShape, sort: &Sort) {
    let mut params = rows::params(shape);
    params.extend([array(PlanArray::Rows), Param::Scratch(ERRORS), Param::Scratch(COUNTS), Param::Positions]);
    let what = "checks each index in its own bounds, combines them and counts rows in each span of tiles";
    plan.entry("plan_rows", what, grid(sort), &params, |writer| {
        sort.shared(writer);
        writer.line("RL_SHARED(rl_u64, bad, 1);");
        own_span(writer, sort);
        writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
        writer.line("rl_barrier();");
        tally(writer, sort, |writer| {
            writer.line(format!("rl_u32 digits[{}];", sort.items));
            rows::items(writer, shape, sort, &sort.across());
        });
        writer.line("if (rl_thread() == 0) rl_store(errors + rl_block(), bad[0]);");
    });
}

/// Counts a later digit in each span of the order so far.
fn count(plan: &mut Plan, sort: &Sort, pass: u32) {
    let mut params = sort.sources(pass);
    params.extend([Param::Scratch(COUNTS), Param::Positions]);
    let what = "counts one digit of the rows in each span of the order so far";
    plan.entry(&format!("plan_count{pass}"), what, grid(sort), &params, |writer| {
        sort.shared(writer);
        own_span(writer, sort);
        tally(writer, sort, |writer| {
            writer.line(sort.arrays());
            sort.ordered(writer, pass, &sort.across());
        });
    });
}

/// `counted`: how often all positions have each digit. `before`: of the digit of this thread's
/// number, how often the spans before this one have it.
fn sum_counts(writer: &mut Writer, sort: &Sort) {
    let (threads, digits, width) = (sort.threads, sort.digits.values, sort.width());
    let groups = u64::from(threads) / width;
    writer.line("rl_u32 all = 0, before = 0;");
    writer.line(format!("const rl_u32 lane = rl_thread() % {width};"));
    let inside = if digits < width { format!("if (lane < {digits}) ") } else { String::new() };
    let head = format!("{inside}for (rl_u64 other = rl_thread() / {width}; other < spans; other += {groups})");
    writer.block(head, |writer| {
        writer.line(format!("const rl_u32 one = rl_load<rl_u32>(counts + other * {digits} + lane);"));
        writer.line("all += one;");
        writer.line("before += other < rl_block() ? one : 0;");
    });
    writer.line("sums[rl_thread()] = all;");
    writer.line(format!("sums[{threads} + rl_thread()] = before;"));
    writer.line("rl_barrier();");
    writer.line("all = 0, before = 0;");
    writer.block(format!("if (rl_thread() < {digits})"), |writer| {
        writer.block(format!("for (rl_u32 other = rl_thread(); other < {threads}; other += {width})"), |writer| {
            writer.line("all += sums[other];");
            writer.line(format!("before += sums[{threads} + other];"));
        });
    });
}

/// `error`: the smallest of some spans, in the first block.
fn find_error(writer: &mut Writer, threads: u32) {
    writer.line("RL_SHARED(rl_u64, bad, 1);");
    writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
    writer.line("rl_u64 error = ~0ull;");
    let head = format!("if (rl_block() == 0) for (rl_u64 at = rl_thread(); at < spans; at += {threads})");
    writer.block(head, |writer| {
        writer.line("const rl_u64 one = rl_load<rl_u64>(errors + at);");
        writer.line("if (one < error) error = one;");
    });
}

/// Moves the positions of each span behind all of smaller digits, and of the same digit before them.
/// Where rows are one digit, their segments and blocks too.
fn scatter(plan: &mut Plan, sort: &Sort, pass: u32) {
    let to = sort.target(pass);
    let mut params = sort.sources(pass);
    params.extend([to, Param::Scratch(COUNTS)]);
    let alone = sort.digits.passes == 1;
    if alone {
        params.push(Param::Scratch(ERRORS));
        params.extend(few_rows::params());
    }
    params.push(Param::Positions);
    let what = match alone {
        true => "moves positions to their places, divides rows into blocks and names the row of each block",
        false => "moves positions to their places by one digit",
    };
    let (rows, threads, digits) = (plan.rows, sort.threads, sort.digits.values);
    plan.entry(&format!("plan_scatter{pass}"), what, grid(sort), &params, |writer| {
        sort.shared(writer);
        writer.line(format!("RL_SHARED(rl_u32, begin, {digits});"));
        if alone {
            few_rows::shared(writer, sort, rows);
        }
        own_span(writer, sort);
        writer.line("rl_u64 tile = first;");
        writer.line(sort.arrays());
        // Loaded before counts are summed, so that neither waits for the other.
        sort.ordered(writer, pass, &sort.neighbours());
        if alone {
            find_error(writer, threads);
        }
        sum_counts(writer, sort);
        if alone {
            writer.line("if (error != ~0ull) rl_atomic_min(bad, error);");
        }
        writer.line("// Of the digit of this thread's number: where the next of them goes.");
        if alone {
            writer.line("rl_u32 next = 0, total;");
            writer.line(format!("if (rl_thread() < {digits}) counted[rl_thread()] = all;"));
            writer.line("rl_barrier();");
            few_rows::divide(writer, sort, rows, Some("rl_block() != 0"), |writer| {
                writer.line("if (row == rl_thread()) next = segment + before;");
            });
        } else {
            writer.line("rl_u32 total, next = scan(sums, all, total) + before;");
        }
        writer.block("for (; tile < last; ++tile)", |writer| {
            writer.block("if (tile != first)", |writer| sort.ordered(writer, pass, &sort.neighbours()));
            writer.line("rank(places, sums, digits, total);");
            writer.block(format!("if (rl_thread() < {digits})"), |writer| {
                writer.line(format!("begin[rl_thread()] = next - places[rl_thread() * {threads}];"));
                writer.line(format!("next += {};", sort.ranked_count()));
            });
            writer.line("rl_barrier();");
            sort.move_items(writer, sort::name(to));
        });
        if alone {
            few_rows::name_rows(writer, sort, rows, &format!("spans * {threads}"));
            writer.line("if (rl_block() == 0 && rl_thread() == 0) rl_store(totals, bad[0]);");
        }
    });
}
