//! Statements and expressions, by types.

use proc_macro2::Ident;
use rowloom_codegen::ir::{InputId, InputKind, Op};

use super::value::{Affine, Rows, Sum, Value};
use super::{Lowering, outputs};
use crate::decl::{BinaryOp, Expr, Let, Pattern};
use crate::errors::Site;

const ARITHMETIC: &str = "arithmetic on rows comes in a later version; until then return rows as they are";
const INDEX_FORM: &str = "write a sum of indices times whole numbers, as in `timestep * 3 + modality`";

/// The whole body.
pub fn body(lowering: &mut Lowering<'_>) {
    let decl = lowering.decl;
    for (at, param) in decl.params.iter().enumerate() {
        let input = InputId(at as u32);
        let site = Site::of(&param.name);
        let value = match param.kind {
            Some(InputKind::Rows(ty)) => Value::Rows(Rows { op: Op::Read { input, element: 0 }, ty, site }),
            Some(InputKind::Table { .. }) => Value::Table(input),
            Some(InputKind::Index { .. }) => Value::Affine(Affine { terms: vec![(input, 1)], offset: 0 }),
            None => Value::Refused,
        };
        lowering.names.insert(&param.name, value);
    }
    for binding in &decl.lets {
        bind(lowering, binding);
    }
    let result = expr(lowering, &decl.result);
    outputs::outputs(lowering, &result);
}

fn bind<'a>(lowering: &mut Lowering<'a>, binding: &'a Let) {
    let value = expr(lowering, &binding.value);
    if let Value::Tuple(_) = value {
        lowering
            .errors
            .at(binding.value.site(), "only what the kernel returns is a tuple; give each value its own `let`");
    }
    match &binding.pattern {
        Pattern::Name(name) => {
            lowering.names.insert(name, value);
        }
        Pattern::Chunks { before, after, site } => {
            let count = before.len() + after.as_ref().map_or(0, Vec::len);
            let values = chunks(lowering, value, count, after.is_some(), *site);
            let skipped = values.len() - count;
            let named = before.iter().map(Some).chain(std::iter::repeat_n(None, skipped));
            let named = named.chain(after.iter().flatten().map(Some));
            for (name, value) in named.zip(values) {
                if let Some(Some(name)) = name {
                    lowering.names.insert(name, value);
                }
            }
        }
        Pattern::Refused => {}
    }
}

/// The parts of a value that a chunk pattern takes apart: at least `count` of them.
fn chunks(lowering: &Lowering<'_>, value: Value, count: usize, open: bool, site: Site) -> Vec<Value> {
    let parts = match value {
        Value::Array(parts) => parts.into_iter().map(|(part, _)| part).collect(),
        Value::Refused => return vec![Value::Refused; count],
        Value::Rows(_) => vec![value],
        Value::Affine(_) | Value::Table(_) | Value::Sum(_) | Value::Tuple(_) => {
            let what = value.what();
            lowering.errors.at(site, format!("this is {what} and has no chunks; write `let name = value;`"));
            return vec![Value::Refused; count];
        }
    };
    if parts.len() == count || (open && parts.len() > count) {
        return parts;
    }
    let instead = if parts.len() > count { "name them all, or end with `..`" } else { "name no more than that" };
    let chunks = if parts.len() == 1 { "is 1 chunk" } else { &format!("are {} chunks", parts.len()) };
    lowering.errors.at(site, format!("there {chunks} and this names {count}; {instead}"));
    vec![Value::Refused; count]
}

fn expr(lowering: &mut Lowering<'_>, expression: &Expr) -> Value {
    match expression {
        Expr::Name(name) => match lowering.names.get(name) {
            Some(value) => value.clone(),
            None => unknown(lowering, name),
        },
        Expr::Integer(value, _) => Value::Affine(Affine::constant(*value)),
        Expr::Binary { op, op_site, left, right, site } => {
            let (left, right) = (expr(lowering, left), expr(lowering, right));
            binary(lowering, *op, (*op_site, *site), &left, &right)
        }
        Expr::Indexed { base, index, site } => {
            let value = expr(lowering, base);
            indexed(lowering, base, &value, index, *site)
        }
        Expr::Array(items, site) => {
            if items.is_empty() {
                return lowering.refuse(site, "an array of outputs has at least one; write `[a, b]`");
            }
            Value::Array(items.iter().map(|item| (expr(lowering, item), item.site())).collect())
        }
        Expr::Tuple(items, _) => Value::Tuple(items.iter().map(|item| (expr(lowering, item), item.site())).collect()),
        Expr::SegmentSum { value, index, site } => {
            let summed = expr(lowering, value);
            let row = affine(lowering, index);
            let chunks = summands(lowering, &summed, value.site());
            match (chunks, row) {
                (Some(chunks), Some(row)) => Value::Sum(Sum { chunks, row, row_site: index.site(), site: *site }),
                _ => Value::Refused,
            }
        }
        Expr::Refused => Value::Refused,
    }
}

fn unknown(lowering: &Lowering<'_>, name: &Ident) -> Value {
    let decl = lowering.decl;
    if decl.lets.iter().any(|binding| binding.pattern.names().contains(&name)) {
        return lowering.refuse(name, format!("`{name}` is named further down; move its `let` up"));
    }
    // What was refused may have been the one to bind it.
    if decl.lacks_params || decl.lets.iter().any(|binding| matches!(binding.pattern, Pattern::Refused)) {
        return Value::Refused;
    }
    lowering.refuse(name, format!("there is no `{name}`; write an input or a name that a `let` gave"))
}

fn binary(lowering: &Lowering<'_>, op: BinaryOp, (op_site, site): (Site, Site), left: &Value, right: &Value) -> Value {
    let (left, right) = match (left, right) {
        (Value::Refused, _) | (_, Value::Refused) => return Value::Refused,
        (Value::Affine(left), Value::Affine(right)) => (left, right),
        (Value::Sum(_), _) | (_, Value::Sum(_)) => {
            return lowering.refuse(op_site, "nothing is computed from a `segment_sum`; return it as it is");
        }
        (Value::Table(_), _) | (_, Value::Table(_)) => {
            return lowering
                .refuse(op_site, "a table is read through an index, as in `table[row]`, and not computed with");
        }
        (Value::Rows(_) | Value::Array(_) | Value::Tuple(_) | Value::Affine(_), _) => {
            return lowering.refuse(op_site, ARITHMETIC);
        }
    };
    let combined = match op {
        BinaryOp::Add => left.plus(right),
        BinaryOp::Mul => {
            let (scaled, factor) = match (left.terms.is_empty(), right.terms.is_empty()) {
                (_, true) => (left, right.offset),
                (true, false) => (right, left.offset),
                (false, false) => {
                    return lowering.refuse(op_site, format!("two indices cannot be multiplied; {INDEX_FORM}"));
                }
            };
            if factor == 0 && !scaled.terms.is_empty() {
                return lowering.refuse(site, "a factor of 0 makes an index meaningless; write a factor of at least 1");
            }
            scaled.times(factor)
        }
        BinaryOp::Sub => {
            return lowering.refuse(op_site, format!("rows are not counted backwards; {INDEX_FORM}"));
        }
        BinaryOp::Div => {
            return lowering.refuse(op_site, format!("indices are not divided; {INDEX_FORM}"));
        }
    };
    combined
        .map_or_else(|| lowering.refuse(site, "a factor here does not fit 64 bits; write a smaller one"), Value::Affine)
}

/// An index expression that names rows.
fn affine(lowering: &mut Lowering<'_>, index: &Expr) -> Option<Affine> {
    let value = expr(lowering, index);
    match value {
        Value::Affine(affine) if affine.terms.is_empty() => {
            lowering.errors.at(index.site(), format!("the same row at every position needs no index; {INDEX_FORM}"));
            None
        }
        Value::Affine(affine) => Some(affine),
        Value::Refused => None,
        Value::Rows(_) | Value::Table(_) | Value::Array(_) | Value::Sum(_) | Value::Tuple(_) => {
            lowering.errors.at(index.site(), format!("this is {} and names no row; {INDEX_FORM}", value.what()));
            None
        }
    }
}

fn indexed(lowering: &mut Lowering<'_>, base: &Expr, value: &Value, index: &Expr, site: Site) -> Value {
    let table = match value {
        Value::Table(table) => *table,
        Value::Refused => return Value::Refused,
        Value::Array(_) => {
            let instead = "name its chunks, as in `let [shift, scale, ..] = table[row];`";
            return lowering.refuse(base.site(), format!("a chunk has no number here; {instead}"));
        }
        Value::Rows(_) | Value::Affine(_) | Value::Sum(_) | Value::Tuple(_) => {
            let what = value.what();
            return lowering.refuse(base.site(), format!("this is {what}; only a `Table` is read through an index"));
        }
    };
    let Some(row) = affine(lowering, index) else {
        return Value::Refused;
    };
    let InputKind::Table { ty, rows, chunks } = lowering.kernel.inputs[table.index()].kind else {
        return Value::Refused;
    };
    let row = lowering.row(&row, rows, index.site());
    let chunk = |chunk| Value::Rows(Rows { op: Op::Gather { table, chunk, row }, ty, site });
    if chunks == 1 { chunk(0) } else { Value::Array((0..chunks).map(|at| (chunk(at), site)).collect()) }
}

/// What `segment_sum` sums: rows, or an array of rows, a chunk each.
fn summands(lowering: &Lowering<'_>, value: &Value, site: Site) -> Option<Vec<Rows>> {
    let instead = "write `segment_sum(rows, index)`, or `segment_sum([a, b], index)` for a table of chunks";
    let items = match value {
        Value::Rows(rows) => return Some(vec![rows.clone()]),
        Value::Array(items) => items,
        Value::Refused => return None,
        Value::Affine(_) | Value::Table(_) | Value::Sum(_) | Value::Tuple(_) => {
            lowering.errors.at(site, format!("`segment_sum` sums rows, and this is {}; {instead}", value.what()));
            return None;
        }
    };
    let mut rows = Vec::new();
    for (item, site) in items {
        match item {
            Value::Rows(item) => rows.push(item.clone()),
            Value::Refused => return None,
            Value::Affine(_) | Value::Table(_) | Value::Array(_) | Value::Sum(_) | Value::Tuple(_) => {
                lowering
                    .errors
                    .at(site, format!("`segment_sum` sums rows, and one of these is {}; {instead}", item.what()));
                return None;
            }
        }
    }
    Some(rows)
}
