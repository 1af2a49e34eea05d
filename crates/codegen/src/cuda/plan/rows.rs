//! Rows from indices.

use super::super::{Param, Writer, names};
use super::{InputId, PlanShape, Sort};

/// Pointer and stride of each index.
pub(super) fn params(shape: &PlanShape) -> Vec<Param> {
    let term = |term: usize| {
        let input = InputId(term as u32);
        [Param::Input { input, element: 0 }, Param::InputStride { input, element: 0 }]
    };
    (0..shape.terms.len()).flat_map(term).collect()
}

/// Checks each index of the tile in its own bounds, combines them and stores the rows;
/// `digits[item]` are their first digits. The smallest bad position is kept in `bad`.
pub(super) fn items(writer: &mut Writer, shape: &PlanShape, sort: &Sort, position: &str) {
    for (at, term) in shape.terms.iter().enumerate() {
        writer.line(format!("{} value{at}[{}];", names::int(term.ty), sort.items));
    }
    // All loads first, so that none waits for another.
    writer.block(sort.each_item(), |writer| {
        writer.line(format!("const rl_u64 position = {position};"));
        writer.line("const rl_u64 inside = position < positions ? position : positions - 1;");
        for (at, term) in shape.terms.iter().enumerate() {
            let ty = names::int(term.ty);
            writer.line(format!("value{at}[item] = rl_load<{ty}>(index{at} + inside * index{at}_stride);"));
        }
    });
    writer.block(sort.each_item(), |writer| {
        writer.line(format!("const rl_u64 position = {position};"));
        writer.line(format!("digits[item] = {};", sort.digits.values));
        writer.line("if (position >= positions) continue;");
        row(writer, shape);
        writer.line("rl_store(rows + position, row);");
        writer.line(format!("digits[item] = {};", sort.digits.digit("row", 0)));
    });
}

/// `row` of a position whose indices may be anything.
fn row(writer: &mut Writer, shape: &PlanShape) {
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
