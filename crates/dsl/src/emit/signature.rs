//! The declaration's first line, as a user would write it on one.

use rowloom_codegen::Kernel;
use rowloom_codegen::ir::InputKind;

use crate::decl::{Decl, ReturnKind};
use crate::symbol::{INDEX, ROWS, TABLE};

/// `name<T: Float, …>(table: Table<T, R, 6>, …) -> …`.
pub fn text(decl: &Decl, kernel: &Kernel) -> String {
    let generics = &decl.generics;
    let floats = generics.floats.iter().map(|name| format!("{name}: Float"));
    let ints = generics.ints.iter().map(|name| format!("{name}: Int"));
    let counts = generics.counts.iter().map(|name| format!("const {name}: usize"));
    let generics: Vec<String> = floats.chain(ints).chain(counts).collect();
    let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
    let inputs: Vec<String> =
        kernel.inputs.iter().map(|one| format!("{}: {}", one.name, input(kernel, one.kind))).collect();
    let outputs: Vec<String> =
        decl.returns.iter().filter_map(|output| output.kind).map(|kind| output(kernel, kind)).collect();
    let outputs = if let [single] = outputs.as_slice() { single.clone() } else { format!("({})", outputs.join(", ")) };
    format!("{}{generics}({}) -> {outputs}", decl.name, inputs.join(", "))
}

/// The type of an input.
pub fn input(kernel: &Kernel, kind: InputKind) -> String {
    match kind {
        InputKind::Rows(ty) => format!("{ROWS}<{}>", kernel.float_text(ty)),
        InputKind::Table { ty, rows, chunks } => table(kernel, ty, rows, chunks),
        InputKind::Index { ty, bound, pad } => {
            let pad = pad.map_or_else(String::new, |pad| format!(", {{ pad = {pad} }}"));
            format!("{INDEX}<{}, {}{pad}>", kernel.int_text(ty), extent(kernel, bound))
        }
    }
}

/// The type of an output.
pub fn output(kernel: &Kernel, kind: ReturnKind) -> String {
    match kind {
        ReturnKind::Rows { ty, array: None } => format!("{ROWS}<{}>", kernel.float_text(ty)),
        ReturnKind::Rows { ty, array: Some(length) } => format!("[{ROWS}<{}>; {length}]", kernel.float_text(ty)),
        ReturnKind::Table { ty, rows, chunks } => table(kernel, ty, rows, chunks),
    }
}

fn table(
    kernel: &Kernel,
    ty: rowloom_codegen::ir::FloatType,
    rows: rowloom_codegen::ir::Extent,
    chunks: u32,
) -> String {
    let chunks = if chunks == 1 { String::new() } else { format!(", {chunks}") };
    format!("{TABLE}<{}, {}{chunks}>", kernel.float_text(ty), extent(kernel, rows))
}

/// An expression stands in braces, as Rust wants it.
fn extent(kernel: &Kernel, extent: rowloom_codegen::ir::Extent) -> String {
    let text = extent.text(&kernel.counts);
    if text.contains(' ') { format!("{{ {text} }}") } else { text }
}

/// Shape of an input as its documentation gives it.
pub fn input_shape(kernel: &Kernel, kind: InputKind) -> String {
    match kind {
        InputKind::Rows(_) => "(S, H)".to_owned(),
        InputKind::Table { rows, chunks, .. } => table_shape(kernel, rows, chunks),
        InputKind::Index { bound, pad, .. } => {
            let pad = pad.map_or_else(String::new, |pad| format!(", or {pad} for no row"));
            format!("(S, 1), each in 0..{}{pad}", bound.text(&kernel.counts))
        }
    }
}

/// Shape of an output as its documentation gives it.
pub fn output_shape(kernel: &Kernel, kind: ReturnKind) -> String {
    match kind {
        ReturnKind::Rows { array: None, .. } => "(S, H)".to_owned(),
        ReturnKind::Rows { array: Some(length), .. } => format!("{length} of (S, H)"),
        ReturnKind::Table { rows, chunks, .. } => table_shape(kernel, rows, chunks),
    }
}

fn table_shape(kernel: &Kernel, rows: rowloom_codegen::ir::Extent, chunks: u32) -> String {
    let columns = if chunks == 1 { "H".to_owned() } else { format!("{chunks}·H") };
    format!("({}, {columns})", rows.text(&kernel.counts))
}
