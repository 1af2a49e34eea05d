//! The row of a position: of a plan, or from indices, each checked on its own.

use super::names::{int, integer};
use super::{Context, PlanArray, Writer};
use crate::ir::{InputKind, RowId};

/// Who asks for the row of a position.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    /// Every thread of a block, for the same one.
    Block,
    /// A thread alone.
    Thread,
}

/// The function that checks each index of a row expression on its own, then combines them.
pub(super) fn write_function(context: &mut Context<'_>, row: RowId, caller: Caller) {
    let kernel = context.kernel;
    let expression = &kernel.rows[row.index()];
    let mut writer = std::mem::take(&mut context.writer);
    writer.line("");
    writer.line(format!("// {}; each index in its own bounds, else reported.", kernel.row_text(expression)));
    let mut params = Vec::new();
    let mut checks = Vec::new();
    let mut pads = Vec::new();
    let mut sum = Vec::new();
    for &(index, factor) in &expression.terms {
        let InputKind::Index { ty, bound, pad } = kernel.inputs[index.index()].kind else { continue };
        let name = context.names.input(kernel, index, 0);
        params.push(format!("{} {name}", int(context.spec.int(ty))));
        let outside = format!("static_cast<rl_u64>({name}) >= {}", context.spec.extent(bound));
        match pad {
            None => checks.push((index, outside)),
            Some(pad) => {
                let pad = integer(pad);
                checks.push((index, format!("{name} != {pad} && {outside}")));
                pads.push(format!("{name} == {pad}"));
            }
        }
        let value = format!("static_cast<rl_u64>({name})");
        sum.push(if factor == 1 { value } else { format!("{value} * {factor}") });
    }
    if expression.offset != 0 {
        sum.push(expression.offset.to_string());
    }
    let who = match caller {
        Caller::Block => "if (rl_thread() == 0) ",
        Caller::Thread => "",
    };
    let head = format!("RL_INLINE rl_u32 row{}({}, rl_u64 position, rl_u64* error)", row.0, params.join(", "));
    writer.block(head, |writer| {
        for (at, (index, outside)) in checks.iter().enumerate() {
            writer.block(format!("{}if ({outside})", if at == 0 { "" } else { "else " }), |writer| {
                writer.line(format!("{who}rl_atomic_min(error, position * 256 + {});", index.0));
                writer.line("return 0xFFFFFFFF;");
            });
        }
        for pad in &pads {
            writer.line(format!("if ({pad}) return 0xFFFFFFFF;"));
        }
        writer.line(format!("return static_cast<rl_u32>({});", sum.join(" + ")));
    });
    context.writer = writer;
}

/// The row of `position`, as an expression.
pub(super) fn of_position(context: &Context<'_>, row: RowId) -> String {
    if context.spec.planned {
        return format!("rl_load_constant<rl_u32>({} + position)", context.plan_name(row, PlanArray::Rows));
    }
    let mut loads = Vec::new();
    for &(index, _) in &context.kernel.rows[row.index()].terms {
        let InputKind::Index { ty, .. } = context.kernel.inputs[index.index()].kind else { continue };
        let ty = int(context.spec.int(ty));
        let name = context.names.input(context.kernel, index, 0);
        // Kept, since every warp of a block may ask for it, and positions beside it lie in the same line.
        loads.push(format!("rl_load_kept<{ty}>({name} + position * {name}_stride)"));
    }
    format!("row{}({}, position, error)", row.0, loads.join(", "))
}

/// `r0`: the row of `position`, which `value` gives. Where an index is out of bounds, outputs are
/// left as they are, so loads need no look at the row.
pub(super) fn write_known(context: &Context<'_>, writer: &mut Writer, row: RowId, value: &str) {
    writer.line(format!("const rl_u32 r{} = {value};", row.0));
    if !context.spec.planned && !context.kernel.has_pad(row) {
        writer.line(format!("if (r{} == 0xFFFFFFFF) continue;", row.0));
    }
}
