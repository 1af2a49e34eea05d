//! Outputs with a row per position.

use super::chunks::Chunks;
use super::names::float;
use super::row::{self, Caller};
use super::value::{Leaf, Target, store};
use super::{Context, Count, Entry, Param, PlanArray, Scratch, Step, Writer, lanes};
use crate::ir::{InputKind, OutputKind, RowId};
use crate::schedule::{PositionsKind, PositionsSchedule};

pub(super) fn write(context: &mut Context<'_>, schedule: PositionsSchedule) {
    let targets = targets(context);
    let rows = rows_used(context, &targets);
    let lanes = lanes::positions(context.kernel, context.spec);
    if !context.spec.planned && !rows.is_empty() {
        context.error = Some(context.scratch.len());
        context.scratch.push(Scratch { name: "error", elements: Count::Fixed(1), element_bytes: 8 });
        context.steps.push(Step::Fill { scratch: context.scratch.len() - 1, byte: 0xFF });
        let caller = if schedule.positions == 1 { Caller::Block } else { Caller::Thread };
        for &row in &rows {
            row::write_function(context, row, caller);
        }
    }
    let params = params(context, &targets, &rows);
    let name = format!("{}_{}", context.kernel.name, context.kernel.direction);
    let declared: Vec<String> = params.iter().map(|&param| context.declare(param)).collect();
    let mut writer = std::mem::take(&mut context.writer);
    let tensors = match schedule.kind {
        PositionsKind::Position => None,
        PositionsKind::Output => Some(targets.len() as u64),
    };
    let bounds = format!("{}, {}", schedule.threads, schedule.resident);
    writer.entry(bounds, &name, &declared, |writer| {
        let deal = Deal { context, rows: &rows, tensors, positions: schedule.positions };
        deal.write(writer, |writer| match schedule.kind {
            PositionsKind::Position => {
                let all: Vec<&Target> = targets.iter().collect();
                context.write_copy(writer, &all, lanes, schedule);
            }
            PositionsKind::Output => write_tensor(context, writer, &targets, lanes, schedule),
        });
    });
    context.writer = writer;
    let run = match schedule.positions {
        1 => "one position".to_owned(),
        positions => format!("{positions} positions, one after the other"),
    };
    let what = match schedule.kind {
        PositionsKind::Position => format!("a block is every output at {run}"),
        PositionsKind::Output => format!("a block is one output tensor at {run}, tensor after tensor"),
    };
    context.entries.push((name.clone(), what));
    let grid = Count::Positions { per: schedule.positions.into(), each: tensors.unwrap_or(1) };
    let resident = schedule.persistent.then_some(schedule.resident);
    context.steps.push(Step::Launch(Entry { name, threads: schedule.threads, grid, early: false, resident, params }));
}

/// How positions are dealt to blocks.
struct Deal<'c, 'k> {
    context: &'c Context<'k>,
    /// The row expressions that a position needs.
    rows: &'c [RowId],
    /// So many tensors, one after the other; `None` for all at once.
    tensors: Option<u64>,
    /// Positions of a block.
    positions: u32,
}

impl Deal<'_, '_> {
    /// The loops; `copy` writes what happens at `position`, of `tensor` where they go one by one.
    fn write(&self, writer: &mut Writer, copy: impl FnOnce(&mut Writer)) {
        if self.positions > 1 {
            return self.runs(writer, copy);
        }
        let head = self.over("position", "positions");
        writer.block(head, |writer| {
            if self.tensors.is_some() {
                writer.line("const rl_u64 position = work % positions;");
                writer.line("const rl_u64 tensor = work / positions;");
            }
            for &row in self.rows {
                row::write_known(self.context, writer, row, &row::of_position(self.context, row));
            }
            copy(writer);
        });
    }

    /// Runs of positions. A thread each brings their rows; a block that has another run to do
    /// brings those to the other half, so that one barrier a run is enough.
    fn runs(&self, writer: &mut Writer, copy: impl FnOnce(&mut Writer)) {
        let positions = self.positions;
        for row in self.rows {
            writer.line(format!("RL_SHARED(rl_u32, ready{}, {});", row.0, 2 * positions));
        }
        writer.line(format!("const rl_u64 runs = (positions + {}) / {positions};", positions - 1));
        if !self.rows.is_empty() {
            writer.line("rl_u32 half = 0;");
        }
        let head = self.over("run", "runs");
        writer.block(head, |writer| {
            let run = if self.tensors.is_some() { "work % runs" } else { "run" };
            writer.line(format!("const rl_u64 first = {run} * {positions};"));
            if self.tensors.is_some() {
                writer.line("const rl_u64 tensor = work / runs;");
            }
            writer.line(format!(
                "const rl_u32 count = positions - first < {positions} ? positions - first : {positions};"
            ));
            if !self.rows.is_empty() {
                writer.block("if (rl_thread() < count)", |writer| {
                    writer.line("const rl_u64 position = first + rl_thread();");
                    for &row in self.rows {
                        let value = row::of_position(self.context, row);
                        writer.line(format!("ready{}[half + rl_thread()] = {value};", row.0));
                    }
                });
                writer.line("rl_barrier();");
            }
            writer.block("for (rl_u32 at = 0; at < count; ++at)", |writer| {
                writer.line("const rl_u64 position = first + at;");
                for &row in self.rows {
                    row::write_known(self.context, writer, row, &format!("ready{}[half + at]", row.0));
                }
                copy(writer);
            });
            if !self.rows.is_empty() {
                writer.line(format!("half = {positions} - half;"));
            }
        });
    }

    /// The loop over what blocks are dealt: `count` of `name`, for each tensor.
    fn over(&self, name: &str, count: &str) -> String {
        match self.tensors {
            None => format!("for (rl_u64 {name} = rl_block(); {name} < {count}; {name} += rl_blocks())"),
            Some(each) => format!("for (rl_u64 work = rl_block(); work < {count} * {each}; work += rl_blocks())"),
        }
    }
}

/// Computes `tensor` at `position`.
fn write_tensor(
    context: &Context<'_>,
    writer: &mut Writer,
    targets: &[Target],
    lanes: u32,
    schedule: PositionsSchedule,
) {
    if let Some(chunks) = Chunks::of(context, targets) {
        chunks.write(context, writer, targets, lanes, schedule);
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

impl Context<'_> {
    /// Columns that one access of a leaf covers.
    pub fn leaf_lanes(&self, leaf: Leaf) -> u32 {
        let ty = match self.kernel.inputs[leaf.input.index()].kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => ty,
            InputKind::Index { .. } => unreachable!("an index is no value"),
        };
        lanes::of(self.spec.inputs[leaf.input.index()], self.spec.float(ty).bytes())
    }

    /// Computes `targets` at the position, all their columns.
    fn write_copy(&self, writer: &mut Writer, targets: &[&Target], lanes: u32, schedule: PositionsSchedule) {
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
    pub fn write_load(&self, writer: &mut Writer, name: &str, leaf: Leaf, address: &str, lanes: u32) {
        let ty = format!("rl_vector<{}, {lanes}>", self.leaf_type(leaf));
        let function = if leaf.row.is_some() { "rl_load_kept" } else { "rl_load_constant" };
        let load = format!("{function}<{ty}>({address})");
        let load = match leaf.row {
            Some(row) if self.kernel.has_pad(row) => {
                format!("r{} == 0xFFFFFFFF ? {ty}{{}} : {load}", row.0)
            }
            Some(_) | None => load,
        };
        writer.line(format!("const {ty} {name} = {load};"));
    }

    fn write_columns(&self, writer: &mut Writer, target: &Target, lanes: u32) -> String {
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
