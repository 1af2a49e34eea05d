//! Outputs that are the chunks of one table, one after the other: one loop copies any of them.

use super::names::float;
use super::value::{Leaf, Target, store};
use super::{Context, Writer};
use crate::dtype::DType;
use crate::ir::{Op, OutputKind};
use crate::schedule::PositionsSchedule;

pub(super) struct Chunks {
    /// The chunk of the first tensor.
    first: Leaf,
    /// What tensors hold.
    dtype: DType,
}

impl Chunks {
    /// `None` where some output is no copy, or no next chunk of the same table at the same row.
    pub fn of(context: &Context<'_>, targets: &[Target]) -> Option<Chunks> {
        let mut first: Option<Chunks> = None;
        for (target, at) in targets.iter().zip(0..) {
            let Op::Gather { table, chunk, row } = context.kernel.node(target.value).op else { return None };
            let (OutputKind::Rows(ty) | OutputKind::Table { ty, .. }) =
                context.kernel.outputs[target.output as usize].kind;
            let dtype = context.spec.float(ty);
            match &first {
                None => first = Some(Chunks { first: Leaf { input: table, element: chunk, row: Some(row) }, dtype }),
                Some(Chunks { first: leaf, dtype: other }) => {
                    let next = leaf.input == table && leaf.row == Some(row) && leaf.element + at == chunk;
                    if !next || *other != dtype {
                        return None;
                    }
                }
            }
        }
        first
    }

    /// Copies `tensor` at `position`.
    pub fn write(
        &self,
        context: &Context<'_>,
        writer: &mut Writer,
        targets: &[Target],
        lanes: u32,
        schedule: PositionsSchedule,
    ) {
        let ty = float(self.dtype);
        writer.line(format!("{ty}* to;"));
        writer.open("switch (static_cast<rl_u32>(tensor))");
        for (at, target) in targets.iter().enumerate() {
            let name = context.names.output(context.kernel, target.output as usize, target.tensor);
            let label = if at + 1 == targets.len() { "default".to_owned() } else { format!("case {at}") };
            writer.line(format!("{label}: to = {name} + position * {name}_stride; break;"));
        }
        writer.close();
        let table = context.names.input(context.kernel, self.first.input, self.first.tensor());
        let row = self.first.row.map_or(0, |row| row.0);
        let chunk = match self.first.element {
            0 => "tensor".to_owned(),
            chunk => format!("({chunk} + tensor)"),
        };
        let hidden = context.spec.hidden;
        writer.line(format!(
            "const {ty}* const from = {table} + static_cast<rl_u64>(r{row}) * {table}_stride + {chunk} * {hidden};"
        ));
        writer.block(context.columns_of_a_thread(lanes, schedule), |writer| {
            context.write_load(writer, "v0", self.first, "from + column", lanes);
            writer.line(format!("{}(to + column, v0);", store(schedule)));
        });
    }
}
