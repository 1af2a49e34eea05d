//! The first entry: rows from indices.

use super::super::{Param, PlanArray, names};
use super::sort::Sort;
use super::{COUNTS, ERRORS, ITEMS, Plan, PlanShape, TILE, array, input, tiles};

/// Checks each index in its own bounds, combines them, and counts the first digit of
/// the rows of each tile. Of a tile's bad positions the smallest is kept.
pub(super) fn rows(plan: &mut Plan, shape: &PlanShape, sort: &Sort) {
    let mut params = Vec::new();
    for term in 0..shape.terms.len() {
        params.push(Param::Input { input: input(term), element: 0 });
        params.push(Param::InputStride { input: input(term), element: 0 });
    }
    params.extend([array(PlanArray::Rows), Param::Scratch(ERRORS), Param::Scratch(COUNTS), Param::Positions]);
    let what = "checks each index in its own bounds, combines them and counts rows in each tile of positions";
    plan.entry("plan_rows", what, tiles(), &params, |writer| {
        sort.shared(writer);
        writer.line("RL_SHARED(rl_u64, bad, 1);");
        sort.each_tile(writer, |writer| {
            writer.line("if (rl_thread() == 0) bad[0] = ~0ull;");
            writer.line("rl_barrier();");
            for (at, term) in shape.terms.iter().enumerate() {
                writer.line(format!("{} value{at}[{ITEMS}];", names::int(term.ty)));
            }
            writer.line(format!("rl_u32 digits[{ITEMS}];"));
            let items = format!("RL_UNROLL for (int item = 0; item < {ITEMS}; ++item)");
            let position = format!("tile * {TILE} + rl_thread() * {ITEMS} + item");
            // All loads first, so that none waits for another.
            writer.block(&items, |writer| {
                writer.line(format!("const rl_u64 position = {position};"));
                writer.line("const rl_u64 inside = position < positions ? position : positions - 1;");
                for (at, term) in shape.terms.iter().enumerate() {
                    let ty = names::int(term.ty);
                    writer.line(format!("value{at}[item] = rl_load<{ty}>(index{at} + inside * index{at}_stride);"));
                }
            });
            writer.block(&items, |writer| {
                writer.line(format!("const rl_u64 position = {position};"));
                writer.line(format!("digits[item] = {};", sort.digits));
                writer.line("if (position >= positions) continue;");
                row(writer, shape);
                writer.line("rl_store(rows + position, row);");
                writer.line(format!("digits[item] = {};", sort.digit("row", shape.rows, 0)));
            });
            sort.rank(writer);
            sort.store_counts(writer);
            writer.line("if (rl_thread() == 0) rl_store(errors + tile, bad[0]);");
        });
    });
}

/// `row` of a position whose indices may be anything.
fn row(writer: &mut super::Writer, shape: &PlanShape) {
    let mut sum = Vec::new();
    let mut pads = Vec::new();
    writer.line("rl_u64 wrong = ~0ull;");
    for (at, term) in shape.terms.iter().enumerate().rev() {
        let value = format!("value{at}[item]");
        let pad = term.pad.map_or(String::new(), |pad| format!("{value} != {} && ", names::integer(pad)));
        writer.line(format!("if ({pad}static_cast<rl_u64>({value}) >= {}) wrong = {at};", term.bound));
    }
    for (at, term) in shape.terms.iter().enumerate() {
        let value = format!("static_cast<rl_u64>(value{at}[item])");
        sum.push(if term.factor == 1 { value } else { format!("{value} * {}", term.factor) });
        pads.extend(term.pad.map(|pad| format!("value{at}[item] == {}", names::integer(pad))));
    }
    if shape.offset != 0 {
        sum.push(shape.offset.to_string());
    }
    writer.line(format!("rl_u32 row = static_cast<rl_u32>({});", sum.join(" + ")));
    if !pads.is_empty() {
        writer.line(format!("if ({}) row = 0xFFFFFFFF;", pads.join(" || ")));
    }
    writer.block("if (wrong != ~0ull)", |writer| {
        writer.line("rl_atomic_min(bad, position * 256 + wrong);");
        writer.line("row = 0;");
    });
}
