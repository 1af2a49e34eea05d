//! The user's names, made safe for C++ and apart from each other and from ours.

use std::collections::HashSet;

use crate::dtype::{Accumulate, DType, IntType};
use crate::ir::{InputId, Kernel};

/// Words that C++ or CUDA C keep for themselves, and those that bodies use.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char8_t", "char16_t",
    "char32_t", "NULL", "assert", "errno", "stdin", "stdout", "stderr", "linux", "unix",
    "class", "compl", "concept", "const", "consteval", "constexpr", "constinit", "const_cast", "continue", "co_await",
    "co_return", "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "main",
    "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
    "protected", "public", "register", "reinterpret_cast", "requires", "return", "short", "signed", "sizeof",
    "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
    "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize",
    // Ours.
    "arrivals", "arrived", "at", "begin", "block", "blocks", "chunk", "column", "count", "error", "first", "lane",
    "order", "partial", "partials", "piece", "position", "positions", "result", "row", "row_blocks", "segment_start",
    "block_start", "block_row", "partial_start", "slot", "sum", "tensor", "tile", "total", "u", "work", "all", "end",
    "left", "chain", "last", "from", "to", "before", "earlier", "ends", "goes_on", "handed", "handed_on", "kept", "run",
    "run_begin", "run_end", "half", "ready", "runs", "ticket", "through", "totals", "v",
];

/// Names of one source.
pub(super) struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Names {
    pub fn of(kernel: &Kernel) -> Names {
        let mut taken = HashSet::new();
        let rows = kernel.rows.len();
        Names {
            inputs: kernel
                .inputs
                .iter()
                .map(|input| unique(&mut taken, &input.name, input.count as usize, rows))
                .collect(),
            outputs: kernel
                .outputs
                .iter()
                .map(|output| unique(&mut taken, &output.name, output.tensors(), rows))
                .collect(),
        }
    }

    pub fn input(&self, kernel: &Kernel, input: InputId, element: u32) -> String {
        numbered(&self.inputs[input.index()], kernel.inputs[input.index()].count as usize, element)
    }

    pub fn output(&self, kernel: &Kernel, output: usize, tensor: u32) -> String {
        numbered(&self.outputs[output], kernel.outputs[output].tensors(), tensor)
    }
}

/// The user's name where C++ and the rest of the body leave it free, else that and an underscore.
fn unique(taken: &mut HashSet<String>, name: &str, count: usize, rows: usize) -> String {
    let mut safe = name.replace("__", "_");
    if reserved_prefix(&safe) {
        safe = format!("user_{safe}");
    }
    loop {
        let family = family(&safe, count, rows);
        if family
            .iter()
            .all(|name| !RESERVED.contains(&name.as_str()) && !numbered_local(name) && !taken.contains(name))
        {
            taken.extend(family);
            return safe;
        }
        safe = if safe.ends_with('_') { format!("{safe}x") } else { format!("{safe}_") };
    }
}

/// Every identifier that a body makes of a name: of each tensor itself, its stride, its row at
/// a position (under each row expression), and what is computed for it.
fn family(name: &str, count: usize, rows: usize) -> Vec<String> {
    let mut family = vec![name.to_owned()];
    for tensor in (0..count).map(|element| numbered(name, count, element as u32)) {
        family.extend(["_stride", "_row", "_at"].map(|tail| format!("{tensor}{tail}")));
        family.extend((0..rows).map(|row| format!("{tensor}_row{row}")));
        family.push(tensor);
    }
    family
}

/// `rl_…` is ours, `_X…` the compiler's.
fn reserved_prefix(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("rl_") || name.starts_with('_')
}

/// Words that bodies number: values, row numbers, pointers to what is summed.
const NUMBERED: [&str; 4] = ["v", "r", "rows", "from"];

/// `v3`, `rows0`, `from1_stride`, `order0`: names that a body makes for itself with a number.
fn numbered_local(name: &str) -> bool {
    let name = name.strip_suffix("_stride").unwrap_or(name);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem != name && (NUMBERED.contains(&stem) || RESERVED.contains(&stem))
}

fn numbered(name: &str, count: usize, element: u32) -> String {
    match (count, name.ends_with(|c: char| c.is_ascii_digit())) {
        (1, _) => name.to_owned(),
        (_, false) => format!("{name}{element}"),
        (_, true) => format!("{name}_{element}"),
    }
}

pub(super) fn float(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F16 => "rl_f16",
        DType::Bf16 => "rl_bf16",
    }
}

/// The primitive that widens a stored number to f32; f32 needs none.
pub(super) fn widened(dtype: DType, value: &str) -> String {
    match dtype {
        DType::F32 => value.to_owned(),
        DType::F16 => format!("rl_f32_from_f16({value})"),
        DType::Bf16 => format!("rl_f32_from_bf16({value})"),
    }
}

/// The primitive that rounds a number of this type to a stored one.
pub(super) fn rounded(from: Accumulate, to: DType, value: &str) -> String {
    format!("rl_{to}_from_{from}({value})")
}

/// A value of an index as a C++ literal; the least i64 has none of its own.
pub(super) fn integer(value: i64) -> String {
    match value {
        i64::MIN => format!("({}ll - 1)", i64::MIN + 1),
        value => value.to_string(),
    }
}

pub(super) fn int(int: IntType) -> &'static str {
    match int {
        IntType::U8 => "rl_u8",
        IntType::I32 => "rl_i32",
        IntType::I64 => "rl_i64",
    }
}

pub(super) fn accumulator(accumulate: Accumulate) -> &'static str {
    match accumulate {
        Accumulate::F32 => "float",
        Accumulate::F64 => "double",
    }
}
