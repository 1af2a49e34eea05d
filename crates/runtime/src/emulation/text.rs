//! One C++ text for many sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rowloom_codegen::cuda::{Primitive, Source, Target};

/// The functions that host texts of primitives stand on, and the scheduler.
const HOST: &str = include_str!("host.hpp");

/// The text that defines `rl_run(entry, launch)` for all entries of `sources`, counted
/// source after source in the order of [`Source::entries`].
///
/// Every body has a namespace of its own, and keeps the line numbers of its device text.
pub(super) fn translation_unit(sources: &[&Source]) -> String {
    let mut text = HOST.to_owned();
    let primitives: BTreeSet<_> =
        sources.iter().flat_map(|source| Primitive::used_by(&source.body, Target::Host)).collect();
    for primitive in primitives {
        text += primitive.text(Target::Host);
    }
    let mut table = String::new();
    for (number, source) in sources.iter().enumerate() {
        let device = source.text(Target::Device);
        let above = device.strip_suffix(&source.body).unwrap_or_default();
        let line = 1 + above.matches('\n').count();
        let _ = write!(
            text,
            "\nnamespace rl_source_{number} {{\n#line {line} \"{}.cu\"\n{}\n}}\n",
            source.name, source.body
        );
        for entry in source.entries() {
            let _ = writeln!(
                table,
                "    [](const std::uint64_t* arguments) {{ rl_host::call<{}>(rl_source_{number}::{}, arguments); }},",
                entry.params.len(),
                entry.name
            );
        }
    }
    let _ = write!(
        text,
        "#line 1 \"entries\"\nstatic const rl_host::Entry rl_entries[] = {{\n{table}}};\n\
         extern \"C\" void rl_run(std::uint32_t entry, rl_host::Launch* launch) {{ rl_host::run(rl_entries[entry], launch); }}\n"
    );
    text
}
