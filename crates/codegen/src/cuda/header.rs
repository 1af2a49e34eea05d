//! The comment that opens every source.

use super::{Context, Source};
use crate::ir::{FloatId, FloatType};
use crate::schedule::Schedule;
use crate::spec::SClass;

pub(super) fn kernel(context: &Context<'_>, schedule: &Schedule) -> String {
    let (kernel, spec) = (context.kernel, context.spec);
    let mode = if spec.planned { "planned: rows come from plans" } else { "checked: rows come from indices" };
    let mut sizes: Vec<String> = Vec::new();
    for (at, param) in kernel.floats.iter().enumerate() {
        sizes.push(format!("{} = {}", param.name, spec.float(FloatType::Param(FloatId(at as u32)))));
    }
    sizes.extend(kernel.ints.iter().zip(&spec.ints).map(|(name, int)| format!("{name} = {int}")));
    sizes.extend(kernel.counts.iter().zip(&spec.counts).map(|(name, count)| format!("{name} = {count}")));
    sizes.push(format!("H = {}", spec.hidden));
    let inputs = kernel.inputs.iter().map(|input| &input.name).zip(&spec.inputs);
    let outputs = kernel.outputs.iter().map(|output| &output.name).zip(&spec.outputs);
    let access: Vec<String> =
        inputs.chain(outputs).map(|(name, access)| format!("{name} {}", access.vector_bytes)).collect();
    let positions = match spec.s_class {
        SClass::OneBlock => "no row has more than one block of positions",
        SClass::Short => "short",
        SClass::Long => "long",
    };
    let mut lines = vec![
        format!("{} {}, {mode}", kernel.name, kernel.direction),
        String::new(),
        format!("sizes      {}", sizes.join(", ")),
        format!("access     {} (bytes)", access.join(", ")),
    ];
    // What does not sum is the same text for every number of positions, compiled once.
    if schedule.segments.is_some() {
        lines.push(format!("positions  {positions}"));
        lines.push(format!(
            "order      blocks of {} positions, {} accumulator",
            kernel.order.block, kernel.order.accumulate
        ));
    }
    lines.push(format!("schedule   {schedule}"));
    lines.push(format!("for        {}", spec.arch));
    comment(lines, &context.entries)
}

/// The lines, the options and the entries as a C++ comment.
pub(super) fn comment(mut lines: Vec<String>, entries: &[(String, String)]) -> String {
    lines.push(format!("options    {}", Source::OPTIONS.join(" ")));
    lines.push("entries".to_owned());
    lines.extend(entries.iter().map(|(name, what)| format!("  {name}: {what}")));
    lines.iter().map(|line| format!("// {line}").trim_end().to_owned() + "\n").collect()
}
