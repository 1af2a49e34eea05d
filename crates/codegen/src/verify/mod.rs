//! The verifier. Rules, each a function:
//!
//! - names are ASCII identifiers, unique, and none of the form's own words;
//! - a block has at least one position;
//! - extents are reduced fractions of row counts that exist, or positive literals;
//! - type parameters are determined by an input (in a backward also by a gradient) or have a default;
//! - row expressions name each index once, in declaration order, and stay below
//!   their row count for every row count that the bounds divide ([`bounds`]);
//! - operands come first; shapes and types fit each op;
//! - outputs hold stored values of their own shape and type;
//! - every input, row expression and node serves an output.
//!
//! Not checked here: whether a schedule is legal ([`crate::schedule`]), whether
//! sizes fit ([`crate::Spec`]), and that an origin exists in the declared kernel.

mod bounds;
mod nodes;

use std::collections::HashSet;
use std::fmt;

use crate::ir::{
    Direction, Extent, FloatType, IndexType, InputId, InputKind, Kernel, NodeId, OutputKind, RowId, Shape,
};

/// A kernel that has passed every rule. Only [`Kernel::verify`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified(Kernel);

impl std::ops::Deref for Verified {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.0
    }
}

/// Where a rule is broken; the macro points at the user's word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The kernel as a whole.
    Kernel,
    /// An input.
    Input(InputId),
    /// A row expression.
    Row(RowId),
    /// A node.
    Node(NodeId),
    /// An output, by number.
    Output(usize),
    /// The order.
    Order,
}

/// One broken rule: a sentence in the user's words, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: Place,
    /// What is wrong and what to write instead. No internal names.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

pub(crate) fn verify(kernel: Kernel) -> Result<Verified, Vec<Fault>> {
    let mut faults = Faults(vec![]);
    names(&kernel, &mut faults);
    order(&kernel, &mut faults);
    extents(&kernel, &mut faults);
    types(&kernel, &mut faults);
    inputs(&kernel, &mut faults);
    // The rest reads what the lists above refer to.
    if faults.0.is_empty() {
        bounds::rows(&kernel, &mut faults);
        nodes::nodes(&kernel, &mut faults);
        outputs(&kernel, &mut faults);
    }
    if faults.0.is_empty() {
        used(&kernel, &mut faults);
    }
    if faults.0.is_empty() { Ok(Verified(kernel)) } else { Err(faults.0) }
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, place: Place, message: impl Into<String>) {
        self.0.push(Fault { place, message: message.into() });
    }
}

/// Words of the text form that a name would shadow.
const FORM_WORDS: [&str; 6] = ["f32", "f16", "bf16", "acc", "stored", "pad"];

fn names(kernel: &Kernel, faults: &mut Faults) {
    // The stored type of a gradient bears the gradient's own name, so types and
    // row counts have their names, inputs and outputs theirs.
    let params = kernel.floats.iter().map(|param| &param.name).chain(&kernel.ints).chain(&kernel.counts);
    let params = params.map(|name| (Place::Kernel, name));
    let inputs = kernel.inputs.iter().enumerate().map(|(at, input)| (Place::Input(InputId(at as u32)), &input.name));
    let outputs = kernel.outputs.iter().enumerate().map(|(at, output)| (Place::Output(at), &output.name));
    names_apart([(Place::Kernel, &kernel.name)].into_iter(), faults);
    names_apart(params, faults);
    names_apart(inputs.chain(outputs), faults);
}

fn names_apart<'a>(names: impl Iterator<Item = (Place, &'a String)>, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (place, name) in names {
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name != "_";
        if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            faults.add(place, format!("`{name}` is no plain name; use ASCII letters, digits and `_`"));
        } else if FORM_WORDS.contains(&name.as_str()) {
            faults.add(place, format!("`{name}` is a word of the language; choose another name"));
        } else if !seen.insert(name) {
            faults.add(place, format!("`{name}` is declared twice; choose another name"));
        }
    }
}

fn order(kernel: &Kernel, faults: &mut Faults) {
    if kernel.order.block == 0 {
        faults.add(Place::Order, "a block of 0 positions sums nothing; write `block = 256`");
    }
}

fn extents(kernel: &Kernel, faults: &mut Faults) {
    let mut check = |place, extent: Extent| {
        let exists = extent.count.is_none_or(|count| count.index() < kernel.counts.len());
        let reduced =
            extent.denominator == 1 || (extent.count.is_some() && gcd(extent.numerator, extent.denominator) == 1);
        if !exists {
            faults.add(place, "it refers to a row count that does not exist");
        } else if extent.numerator == 0 || extent.denominator == 0 {
            faults.add(place, "a size of 0 rows holds nothing; it must be at least 1");
        } else if !reduced {
            faults.add(place, format!("`{}` is not in lowest terms", extent.text(&kernel.counts)));
        }
    };
    for (at, input) in kernel.inputs.iter().enumerate() {
        match input.kind {
            InputKind::Rows(_) => {}
            InputKind::Table { rows: extent, .. } | InputKind::Index { bound: extent, .. } => {
                check(Place::Input(InputId(at as u32)), extent);
            }
        }
    }
    for (at, row) in kernel.rows.iter().enumerate() {
        check(Place::Row(RowId(at as u32)), row.rows);
    }
    for (at, node) in kernel.nodes.iter().enumerate() {
        if let Shape::Table(rows) = node.shape {
            check(Place::Node(NodeId(at as u32)), rows);
        }
    }
    for (at, output) in kernel.outputs.iter().enumerate() {
        if let OutputKind::Table { rows, .. } = output.kind {
            check(Place::Output(at), rows);
        }
    }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn types(kernel: &Kernel, faults: &mut Faults) {
    let float = |ty: FloatType| match ty {
        FloatType::Param(param) => param.index() < kernel.floats.len(),
        FloatType::Fixed(_) => true,
    };
    let missing = "it refers to a type parameter that does not exist";
    let mut floats = HashSet::new();
    let mut ints = HashSet::new();
    for (at, input) in kernel.inputs.iter().enumerate() {
        let place = Place::Input(InputId(at as u32));
        match input.kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => {
                floats.insert(ty);
                if !float(ty) {
                    faults.add(place, missing);
                }
            }
            InputKind::Index { ty, .. } => {
                ints.insert(ty);
                if matches!(ty, IndexType::Param(param) if param.index() >= kernel.ints.len()) {
                    faults.add(place, missing);
                }
            }
        }
    }
    for (at, output) in kernel.outputs.iter().enumerate() {
        let (OutputKind::Rows(ty) | OutputKind::Table { ty, .. }) = output.kind;
        if !float(ty) {
            faults.add(Place::Output(at), missing);
        }
        // A gradient is stored as the declared input that it belongs to.
        if kernel.direction == Direction::Backward {
            floats.insert(ty);
        }
    }
    for (at, param) in kernel.floats.iter().enumerate() {
        let determined = floats.contains(&FloatType::Param(crate::ir::FloatId(at as u32)));
        match param.default {
            None if !determined => {
                let help = "no input has this type, so no call can determine it; use it for an input or name f32, f16 or bf16 instead";
                faults.add(Place::Kernel, format!("`{}`: {help}", param.name));
            }
            Some(FloatType::Param(other)) if other.index() >= at => {
                faults.add(Place::Kernel, format!("`{}` takes its default from a later parameter", param.name));
            }
            None | Some(_) => {}
        }
    }
    for (at, name) in kernel.ints.iter().enumerate() {
        if !ints.contains(&IndexType::Param(crate::ir::IntId(at as u32))) {
            faults.add(Place::Kernel, format!("`{name}`: no index has this type; use it for an index or remove it"));
        }
    }
}

fn inputs(kernel: &Kernel, faults: &mut Faults) {
    for (at, input) in kernel.inputs.iter().enumerate() {
        let place = Place::Input(InputId(at as u32));
        let one = match input.kind {
            InputKind::Rows(_) => false,
            InputKind::Table { chunks, .. } => {
                if chunks == 0 {
                    faults.add(place, format!("`{}` has 0 chunks; a table row has at least 1", input.name));
                }
                true
            }
            InputKind::Index { ty, bound, pad } => {
                pad_outside(kernel, place, ty, bound, pad, faults);
                true
            }
        };
        if input.count == 0 || (one && input.count != 1) {
            faults.add(place, format!("`{}` cannot stand for {} tensors", input.name, input.count));
        }
    }
}

/// A pad inside the bound would take a row away, and one that its type cannot hold would never match.
fn pad_outside(kernel: &Kernel, place: Place, ty: IndexType, bound: Extent, pad: Option<i64>, faults: &mut Faults) {
    let Some(pad) = pad else { return };
    let name = &kernel.int_text(ty);
    let fits = match ty {
        IndexType::Param(_) => true,
        IndexType::Fixed(fixed) => fixed.holds(pad),
    };
    if !fits {
        faults.add(place, format!("`pad = {pad}` is no {name}, so no index would ever equal it; choose one that is"));
    }
    let outside = pad < 0 || bound.count.is_none() && pad as u64 >= bound.numerator;
    if !outside {
        let bound = bound.text(&kernel.counts);
        faults.add(place, format!("`pad = {pad}` may be a row of 0..{bound}; choose a value outside, such as -1"));
    }
}

fn outputs(kernel: &Kernel, faults: &mut Faults) {
    if kernel.outputs.is_empty() {
        faults.add(Place::Kernel, "a kernel returns something: rows or a table");
    }
    for (at, output) in kernel.outputs.iter().enumerate() {
        let place = Place::Output(at);
        if output.values.is_empty() {
            faults.add(place, "an output has at least one value");
        }
        let (shape, ty) = match output.kind {
            OutputKind::Rows(ty) => (Shape::Rows, ty),
            OutputKind::Table { ty, rows } => (Shape::Table(rows), ty),
        };
        for &value in &output.values {
            let Some(node) = kernel.nodes.get(value.index()) else {
                faults.add(place, "it returns a value that does not exist");
                continue;
            };
            if node.shape != shape {
                faults.add(place, "the value returned is not of the shape declared");
            } else if node.ty != crate::ir::ValueType::Stored(ty) {
                faults.add(place, "the value returned is not of the element type declared");
            }
        }
    }
}

fn used(kernel: &Kernel, faults: &mut Faults) {
    let live = crate::ir::live(kernel);
    for (at, live) in live.nodes.iter().enumerate() {
        if !live {
            faults.add(Place::Node(NodeId(at as u32)), "this value is never returned; return it or remove it");
        }
    }
    for (at, live) in live.rows.iter().enumerate() {
        if !live {
            faults.add(
                Place::Row(RowId(at as u32)),
                "this row expression is never used; read a table through it or remove it",
            );
        }
    }
    for (at, live) in live.inputs.iter().enumerate() {
        if !live {
            let name = &kernel.inputs[at].name;
            faults.add(Place::Input(InputId(at as u32)), format!("`{name}` is never used; use it or remove it"));
        }
    }
    if kernel.direction == Direction::Forward && kernel.nodes.iter().any(|node| node.origin.is_some()) {
        faults.add(Place::Kernel, "a declared kernel derives from nothing");
    }
}
