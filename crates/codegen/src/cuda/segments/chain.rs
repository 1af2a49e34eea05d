//! The chain of one block of positions: a sum per column, from +0.0, position
//! after position.

use super::super::names::{self, accumulator};
use super::super::{PlanArray, lanes};
use super::group::Group;
use super::{Context, SegmentsSchedule, Writer};
use crate::ir::ValueType;

/// Writes pieces of an entry over one group.
pub(super) struct Chain<'c, 'k> {
    pub context: &'c Context<'k>,
    pub group: &'c Group,
    pub schedule: SegmentsSchedule,
}

impl Chain<'_, '_> {
    pub fn accumulator(&self) -> &'static str {
        accumulator(self.context.kernel.order.accumulate)
    }

    /// Launch bounds: the threads, and how many such blocks must fit a multiprocessor.
    pub fn bounds(&self) -> String {
        format!("{}, {}", self.schedule.threads, self.schedule.resident)
    }

    /// Columns of one tile.
    pub fn tile_columns(&self) -> u64 {
        u64::from(self.schedule.threads) * u64::from(self.schedule.columns)
    }

    /// Tiles of one chunk.
    pub fn tiles(&self) -> u64 {
        self.context.spec.hidden.div_ceil(self.tile_columns())
    }

    /// `tile`, `chunk`, `column` of a piece of work, and what is left of the number.
    pub fn split_work(&self, writer: &mut Writer, rest: &str) {
        let (tiles, chunks) = (self.tiles(), self.group.chunks.len() as u64);
        writer.line(format!("const rl_u32 tile = work % {tiles};"));
        if chunks > 1 {
            writer.line(format!("const rl_u32 chunk = work / {tiles} % {chunks};"));
        }
        writer.line(format!("const rl_u64 {rest} = work / {};", tiles * chunks));
        let columns = self.schedule.columns;
        writer.line(format!("const rl_u32 column = tile * {} + rl_thread() * {columns};", self.tile_columns()));
    }

    /// Whether the thread has columns in this tile.
    pub fn inside(&self) -> String {
        format!("if (column < {})", self.context.spec.hidden)
    }

    /// `row` and its `first` block, of a `block`.
    pub fn row_of_block(&self, writer: &mut Writer) {
        let row = self.group.terms[0].row;
        let plan = |array| self.context.plan_name(row, array);
        writer.line(format!("const rl_u64 row = rl_load<rl_u32>({} + block);", plan(PlanArray::BlockRow)));
        writer.line(format!("const rl_u32 first = rl_load<rl_u32>({} + row);", plan(PlanArray::BlockStart)));
    }

    /// `sum` over the positions of `block`, of `row` that begins with block `first`.
    pub fn sum_of_block(&self, writer: &mut Writer) {
        let row = self.group.terms[0].row;
        let plan = |array| self.context.plan_name(row, array);
        let block = self.context.kernel.order.block;
        let segments = plan(PlanArray::SegmentStart);
        writer.line(format!(
            "const rl_u32 begin = rl_load<rl_u32>({segments} + row) + (static_cast<rl_u32>(block) - first) * {block};"
        ));
        writer.line(format!("const rl_u32 left = rl_load<rl_u32>({segments} + row + 1) - begin;"));
        writer.line(format!("const rl_u32 count = left < {block} ? left : {block};"));
        self.stage_positions(writer, &plan(PlanArray::Order));
        self.zeros(writer, "sum");
        writer.block(self.inside(), |writer| {
            self.leaf_pointers(writer, 0);
            self.chain(writer, 0);
        });
    }

    /// An array of one number per column, each +0.0.
    pub fn zeros(&self, writer: &mut Writer, name: &str) {
        writer.line(format!("{} {name}[{}] = {{}};", self.accumulator(), self.schedule.columns));
    }

    /// Brings `count` positions from `begin` of the order into `positions`.
    pub fn stage_positions(&self, writer: &mut Writer, order: &str) {
        writer.line("rl_barrier();");
        let threads = self.schedule.threads;
        writer.line(format!(
            "for (rl_u32 at = rl_thread(); at < count; at += {threads}) positions[at] = rl_load<rl_u32>({order} + begin + at);"
        ));
        writer.line("rl_barrier();");
    }

    /// The pointers of the leaves of a term, to the thread's columns.
    pub fn leaf_pointers(&self, writer: &mut Writer, term: usize) {
        let context = self.context;
        for (at, (_, leaves)) in self.group.leaves[term].iter().enumerate() {
            let ty = context.leaf_type(leaves[0]);
            let tensor =
                |leaf: &super::super::value::Leaf| context.names.input(context.kernel, leaf.input, leaf.tensor());
            if leaves.len() == 1 {
                let (name, column) = (tensor(&leaves[0]), context.chunk_column(leaves[0]));
                writer.line(format!("const {ty}* const from{at} = {name} + {column};"));
                writer.line(format!("const rl_u64 from{at}_stride = {name}_stride;"));
                continue;
            }
            writer.line(format!("const {ty}* from{at};"));
            writer.line(format!("rl_u64 from{at}_stride;"));
            writer.block("switch (chunk)", |writer| {
                for (case, leaf) in leaves.iter().enumerate() {
                    let label = if case + 1 == leaves.len() { "default".to_owned() } else { format!("case {case}") };
                    let (name, column) = (tensor(leaf), context.chunk_column(*leaf));
                    writer.line(format!(
                        "{label}: from{at} = {name} + {column}; from{at}_stride = {name}_stride; break;"
                    ));
                }
            });
        }
    }

    /// Adds `count` positions to `sum`, in order, `unroll` of them in flight.
    pub fn chain(&self, writer: &mut Writer, term: usize) {
        let unroll = self.schedule.unroll;
        writer.line("rl_u32 at = 0;");
        if unroll > 1 {
            writer.block(format!("for (; at + {unroll} <= count; at += {unroll})"), |writer| {
                self.add(writer, term, unroll);
            });
        }
        writer.block("for (; at < count; ++at)", |writer| self.add(writer, term, 1));
    }

    fn add(&self, writer: &mut Writer, term: usize, unroll: u32) {
        let columns = self.schedule.columns;
        let leaves = &self.group.leaves[term];
        for (at, (_, all)) in leaves.iter().enumerate() {
            writer.line(format!("rl_vector<{}, {columns}> v{at}[{unroll}];", self.context.leaf_type(all[0])));
        }
        let (head, u) =
            if unroll > 1 { (Some(format!("RL_UNROLL for (int u = 0; u < {unroll}; ++u)")), "u") } else { (None, "0") };
        let position = if unroll > 1 { "positions[at + u]" } else { "positions[at]" };
        let lines = |writer: &mut Writer, line: &dyn Fn(&mut Writer)| match &head {
            Some(head) => writer.block(head, line),
            None => line(writer),
        };
        lines(writer, &|writer: &mut Writer| {
            for (at, (_, all)) in leaves.iter().enumerate() {
                writer.line(format!("v{at}[{u}] = {};", self.load(at, &all[0], position)));
            }
        });
        let value = self.group.terms[term].value;
        let place = |leaf| leaves.iter().position(|(id, _)| *id == leaf).unwrap_or_default();
        let summand = self.context.column_of(value, &|leaf| format!("v{}[{u}].lane[lane]", place(leaf)));
        let summand = match self.context.kernel.node(value).ty {
            ValueType::Stored(ty) => names::widened(self.context.spec.float(ty), &summand),
            ValueType::F32 | ValueType::Accumulator => summand,
        };
        lines(writer, &|writer: &mut Writer| {
            writer.line(format!(
                "RL_UNROLL for (int lane = 0; lane < {columns}; ++lane) sum[lane] = sum[lane] + {summand};"
            ));
        });
    }

    fn load(&self, at: usize, leaf: &super::super::value::Leaf, position: &str) -> String {
        let ty = format!("rl_vector<{}, {}>", self.context.leaf_type(*leaf), self.schedule.columns);
        let Some(row) = leaf.row else {
            let load = if self.schedule.streaming { "rl_load_streaming" } else { "rl_load" };
            return format!("{load}<{ty}>(from{at} + {position} * from{at}_stride)");
        };
        let rows = self.context.plan_name(row, PlanArray::Rows);
        let named = format!("rl_load<rl_u32>({rows} + {position})");
        let load = format!("rl_load<{ty}>(from{at} + {named} * from{at}_stride)");
        if self.context.kernel.has_pad(row) { format!("{named} == 0xFFFFFFFF ? {ty}{{}} : {load}") } else { load }
    }

    /// Rounds `total` once and stores it as the row's columns of the output.
    pub fn store(&self, writer: &mut Writer, total: &str, row: &str) {
        let context = self.context;
        let output = &context.kernel.outputs[self.group.output];
        let (crate::ir::OutputKind::Rows(ty) | crate::ir::OutputKind::Table { ty, .. }) = output.kind;
        let dtype = context.spec.float(ty);
        let widest = lanes::of(context.spec.outputs[self.group.output], dtype.bytes());
        let width = widest.min(self.schedule.columns);
        let name = context.names.output(context.kernel, self.group.output, 0);
        let chunk = self.chunk_number();
        let offset = match chunk.as_str() {
            "0" => String::new(),
            chunk => format!("static_cast<rl_u64>({chunk}) * {} + ", context.spec.hidden),
        };
        let ty = names::float(dtype);
        let accumulate = context.kernel.order.accumulate;
        writer.line(format!("{ty}* const {name}_row = {name} + {row} * {name}_stride + {offset}column;"));
        self.pieces(
            writer,
            width,
            |lane| names::rounded(accumulate, dtype, &format!("{total}[{lane}]")),
            ty,
            &format!("{name}_row"),
            "rl_store",
        );
    }

    /// The output's chunk, from the group's.
    fn chunk_number(&self) -> String {
        let chunks = &self.group.chunks;
        let steps: Vec<u32> = chunks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if chunks.len() == 1 {
            chunks[0].to_string()
        } else if steps.iter().all(|step| *step == steps[0]) {
            let first = if chunks[0] == 0 { String::new() } else { format!("{} + ", chunks[0]) };
            if steps[0] == 1 { format!("{first}chunk") } else { format!("{first}chunk * {}", steps[0]) }
        } else {
            let mut text = chunks[chunks.len() - 1].to_string();
            for (at, chunk) in chunks.iter().enumerate().rev().skip(1) {
                text = format!("(chunk == {at} ? {chunk} : {text})");
            }
            text
        }
    }

    /// Stores one number per column, in as few accesses of `width` as there are.
    pub fn pieces(
        &self,
        writer: &mut Writer,
        width: u32,
        value: impl Fn(&str) -> String,
        ty: &str,
        address: &str,
        store: &str,
    ) {
        let columns = self.schedule.columns;
        let vector = format!("rl_vector<{ty}, {width}>");
        if width == columns {
            writer.line(format!("{vector} result;"));
            writer.line(format!(
                "RL_UNROLL for (int lane = 0; lane < {width}; ++lane) result.lane[lane] = {};",
                value("lane")
            ));
            writer.line(format!("{store}({address}, result);"));
            return;
        }
        writer.block(format!("RL_UNROLL for (int piece = 0; piece < {columns}; piece += {width})"), |writer| {
            writer.line(format!("{vector} result;"));
            let lane = value("piece + lane");
            writer.line(format!("RL_UNROLL for (int lane = 0; lane < {width}; ++lane) result.lane[lane] = {lane};"));
            writer.line(format!("{store}({address} + piece, result);"));
        });
    }
}
