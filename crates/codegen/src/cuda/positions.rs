//! Outputs with a row per position.

use super::chunks::Chunks;
use super::names::{float, int};
use super::value::{Leaf, Target, store};
use super::{Context, Count, Entry, MOST_BLOCKS, Param, PlanArray, Scratch, Step, lanes};
use crate::ir::{InputKind, OutputKind, RowId};
use crate::schedule::{PositionsKind, PositionsSchedule};

/// Threads of a multiprocessor that keep enough loads and stores in flight: 64 registers each.
const RESIDENT_THREADS: u32 = 1024;

pub(super) fn write(context: &mut Context<'_>, schedule: PositionsSchedule) {
    let targets = targets(context);
    let rows = rows_used(context, &targets);
    let lanes = lanes::positions(context.kernel, context.spec);
    if !context.spec.planned && !rows.is_empty() {
        context.error = Some(context.scratch.len());
        context.scratch.push(Scratch { name: "error", elements: Count::Fixed(1), element_bytes: 8 });
        context.steps.push(Step::Fill { scratch: context.scratch.len() - 1, byte: 0xFF });
        for &row in &rows {
            write_row_function(context, row);
        }
    }
    let params = params(context, &targets, &rows);
    let name = format!("{}_{}", context.kernel.name, context.kernel.direction);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let mut writer = std::mem::take(&mut context.writer);
    let tensors = targets.len() as u64;
    let each = match schedule.kind {
        PositionsKind::Position => 1,
        PositionsKind::Output => tensors,
    };
    // Asked for nothing, the compiler aims at as many threads as fit, with 32 registers each, and spills for it.
    let bounds = format!("{}, {}", schedule.threads, (RESIDENT_THREADS / schedule.threads).clamp(1, MOST_BLOCKS));
    writer.entry(bounds, &name, &declared, |writer| match schedule.kind {
        PositionsKind::Position => {
            writer.block(
                "for (rl_u64 position = rl_block(); position < positions; position += rl_blocks())",
                |writer| {
                    context.write_rows(writer, &rows);
                    let all: Vec<&Target> = targets.iter().collect();
                    context.write_copy(writer, &all, lanes, schedule);
                },
            );
        }
        PositionsKind::Output => {
            let head = format!("for (rl_u64 work = rl_block(); work < positions * {tensors}; work += rl_blocks())");
            writer.block(head, |writer| {
                writer.line("const rl_u64 position = work % positions;");
                writer.line("const rl_u64 tensor = work / positions;");
                context.write_rows(writer, &rows);
                if let Some(chunks) = Chunks::of(context, &targets) {
                    chunks.write(context, writer, &targets, lanes, schedule);
                    return;
                }
                writer.open("switch (static_cast<rl_u32>(tensor))");
                for (at, target) in targets.iter().enumerate() {
                    writer.block(format!("case {at}:"), |writer| {
                        context.write_copy(writer, &[target], lanes, schedule);
                        writer.line("break;");
                    });
                }
                writer.close();
            });
        }
    });
    context.writer = writer;
    let what = match schedule.kind {
        PositionsKind::Position => "a block is a position: every output of it",
        PositionsKind::Output => "a block is one output tensor at one position, tensor after tensor",
    };
    context.entries.push((name.clone(), what.to_owned()));
    let grid = Count::Positions { per: 1, each };
    context.steps.push(Step::Launch(Entry { name, threads: schedule.threads, grid, resident: None, params }));
}

fn targets(context: &Context<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    for (output, declared) in context.kernel.outputs.iter().enumerate() {
        if let OutputKind::Rows(_) = declared.kind {
            let values = declared.values.iter().enumerate();
            targets.extend(values.map(|(tensor, &value)| Target {
                output: output as u32,
                tensor: tensor as u32,
                value,
            }));
        }
    }
    targets
}

fn rows_used(context: &Context<'_>, targets: &[Target]) -> Vec<RowId> {
    let mut rows: Vec<RowId> = targets
        .iter()
        .flat_map(|target| context.leaves(target.value).into_values().filter_map(|leaf| leaf.row))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn params(context: &Context<'_>, targets: &[Target], rows: &[RowId]) -> Vec<Param> {
    let mut params = Vec::new();
    let mut add = |param| {
        if !params.contains(&param) {
            params.push(param);
        }
    };
    for target in targets {
        for leaf in context.leaves(target.value).into_values() {
            add(leaf.pointer());
            add(leaf.stride());
        }
    }
    for &row in rows {
        if context.spec.planned {
            add(Param::Plan { row, array: PlanArray::Rows });
            continue;
        }
        for &(index, _) in &context.kernel.rows[row.index()].terms {
            add(Param::Input { input: index, element: 0 });
            add(Param::InputStride { input: index, element: 0 });
        }
    }
    if let Some(error) = context.error {
        add(Param::Scratch(error));
    }
    for target in targets {
        add(Param::Output { output: target.output, tensor: target.tensor });
        add(Param::OutputStride { output: target.output, tensor: target.tensor });
    }
    add(Param::Positions);
    params
}

/// The function that checks each index of a row expression on its own, then combines them.
fn write_row_function(context: &mut Context<'_>, row: RowId) {
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
                let pad = super::names::integer(pad);
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
    let head = format!("RL_INLINE rl_u32 row{}({}, rl_u64 position, rl_u64* error)", row.0, params.join(", "));
    writer.block(head, |writer| {
        for (at, (index, outside)) in checks.iter().enumerate() {
            writer.block(format!("{}if ({outside})", if at == 0 { "" } else { "else " }), |writer| {
                writer.line(format!("if (rl_thread() == 0) rl_atomic_min(error, position * 256 + {});", index.0));
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

impl Context<'_> {
    /// Columns that one access of a leaf covers.
    pub fn leaf_lanes(&self, leaf: Leaf) -> u32 {
        let ty = match self.kernel.inputs[leaf.input.index()].kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => ty,
            InputKind::Index { .. } => unreachable!("an index is no value"),
        };
        lanes::of(self.spec.inputs[leaf.input.index()], self.spec.float(ty).bytes())
    }

    /// `rows0`: the row of the position under each expression.
    fn write_rows(&self, writer: &mut super::Writer, rows: &[RowId]) {
        for &row in rows {
            let name = self.plan_name(row, PlanArray::Rows);
            if self.spec.planned {
                writer.line(format!("const rl_u32 r{} = rl_load<rl_u32>({name} + position);", row.0));
                continue;
            }
            let mut loads = Vec::new();
            for &(index, _) in &self.kernel.rows[row.index()].terms {
                let InputKind::Index { ty, .. } = self.kernel.inputs[index.index()].kind else { continue };
                let ty = int(self.spec.int(ty));
                let name = self.names.input(self.kernel, index, 0);
                loads.push(format!("rl_load<{ty}>({name} + position * {name}_stride)"));
            }
            writer.line(format!("const rl_u32 r{0} = row{0}({1}, position, error);", row.0, loads.join(", ")));
        }
    }

    /// Computes `targets` at the position, all their columns.
    fn write_copy(&self, writer: &mut super::Writer, targets: &[&Target], lanes: u32, schedule: PositionsSchedule) {
        let mut sources: Vec<Leaf> =
            targets.iter().flat_map(|target| self.leaves(target.value).into_values()).collect();
        sources.sort_unstable_by_key(|leaf| (leaf.input, leaf.tensor(), leaf.row));
        sources.dedup_by_key(|leaf| (leaf.input, leaf.tensor(), leaf.row));
        for leaf in &sources {
            let name = self.names.input(self.kernel, leaf.input, leaf.tensor());
            let at = leaf.row.map_or("position".to_owned(), |row| format!("static_cast<rl_u64>(r{})", row.0));
            let ty = self.leaf_type(*leaf);
            writer.line(format!("const {ty}* const {} = {name} + {at} * {name}_stride;", self.source_name(*leaf)));
        }
        for target in targets {
            let (OutputKind::Rows(ty) | OutputKind::Table { ty, .. }) =
                self.kernel.outputs[target.output as usize].kind;
            let name = self.names.output(self.kernel, target.output as usize, target.tensor);
            let ty = float(self.spec.float(ty));
            writer.line(format!("{ty}* const {name}_row = {name} + position * {name}_stride;"));
        }
        writer.block(self.columns_of_a_thread(lanes, schedule), |writer| {
            let mut loaded = std::collections::BTreeMap::new();
            for target in targets {
                loaded.extend(self.leaves(target.value));
            }
            for (id, leaf) in &loaded {
                let address = format!("{} + {}", self.source_name(*leaf), self.chunk_column(*leaf));
                self.write_load(writer, &id.to_string(), *leaf, &address, lanes);
            }
            let store = store(schedule);
            for target in targets {
                let name = self.names.output(self.kernel, target.output as usize, target.tensor);
                let value = if self.is_move(target.value) {
                    target.value.to_string()
                } else {
                    self.write_columns(writer, target, lanes)
                };
                writer.line(format!("{store}({name}_row + column, {value});"));
            }
        });
    }

    /// The loop over the columns of a thread.
    pub fn columns_of_a_thread(&self, lanes: u32, schedule: PositionsSchedule) -> String {
        let step = u64::from(schedule.threads) * u64::from(lanes);
        let first = if lanes == 1 { "rl_thread()".to_owned() } else { format!("rl_thread() * {lanes}") };
        format!("for (rl_u32 column = {first}; column < {}; column += {step})", self.spec.hidden)
    }

    /// `name`: the columns of a leaf at an address, +0.0 where the position has no row.
    pub fn write_load(&self, writer: &mut super::Writer, name: &str, leaf: Leaf, address: &str, lanes: u32) {
        let ty = format!("rl_vector<{}, {lanes}>", self.leaf_type(leaf));
        let function = if leaf.row.is_some() { "rl_load_kept" } else { "rl_load" };
        let load = format!("{function}<{ty}>({address})");
        let load = match leaf.row {
            Some(row) if self.kernel.has_pad(row) || !self.spec.planned => {
                format!("r{} == 0xFFFFFFFF ? {ty}{{}} : {load}", row.0)
            }
            Some(_) | None => load,
        };
        writer.line(format!("const {ty} {name} = {load};"));
    }

    fn write_columns(&self, writer: &mut super::Writer, target: &Target, lanes: u32) -> String {
        let (OutputKind::Rows(ty) | OutputKind::Table { ty, .. }) = self.kernel.outputs[target.output as usize].kind;
        let name = self.names.output(self.kernel, target.output as usize, target.tensor);
        let result = format!("{name}_at");
        writer.line(format!("rl_vector<{}, {lanes}> {result};", float(self.spec.float(ty))));
        let expression = self.column_of(target.value, &|leaf| format!("{leaf}.lane[lane]"));
        writer
            .line(format!("RL_UNROLL for (int lane = 0; lane < {lanes}; ++lane) {result}.lane[lane] = {expression};"));
        result
    }

    /// The pointer to the leaf's row at this position.
    fn source_name(&self, leaf: Leaf) -> String {
        let name = self.names.input(self.kernel, leaf.input, leaf.tensor());
        match leaf.row {
            Some(row) if self.kernel.rows.len() > 1 => format!("{name}_row{}", row.0),
            Some(_) | None => format!("{name}_row"),
        }
    }

    /// The column within the tensor's row.
    pub fn chunk_column(&self, leaf: Leaf) -> String {
        match leaf.row {
            Some(_) if leaf.element > 0 => format!("{} + column", u64::from(leaf.element) * self.spec.hidden),
            Some(_) | None => "column".to_owned(),
        }
    }
}
