//! What is returned against what is declared to be.

use rowloom_codegen::ir::{FloatType, NodeId, Op, Output, OutputKind, Shape, ValueType};

use super::Lowering;
use super::value::{Rows, Sum, Value};
use crate::decl::ReturnKind;
use crate::errors::Site;
use crate::symbol;

/// Makes the outputs from the value of the last line.
pub fn outputs(lowering: &mut Lowering<'_>, result: &Value) {
    let decl = lowering.decl;
    let site = decl.result.site();
    let returned: Vec<(&Value, Site)> = match result {
        Value::Refused => return,
        Value::Tuple(items) => items.iter().map(|(value, site)| (value, *site)).collect(),
        Value::Affine(_) | Value::Rows(_) | Value::Table(_) | Value::Array(_) | Value::Sum(_) => {
            vec![(result, site)]
        }
    };
    // A return type at fault, or none: reported.
    if decl.returns.is_empty() {
        return;
    }
    if returned.len() != decl.returns.len() {
        let outputs = |count| {
            if count == 1 { "1 output".to_owned() } else { format!("{count} outputs") }
        };
        let (declared, found) = (outputs(decl.returns.len()), outputs(returned.len()));
        lowering.errors.at(site, format!("the return type declares {declared} and this is {found}; write as many"));
        return;
    }
    let single = returned.len() == 1;
    for (at, ((value, site), declared)) in returned.into_iter().zip(&decl.returns).enumerate() {
        let Some(kind) = declared.kind else { continue };
        let name = if single { symbol::OUT.to_owned() } else { format!("{}{at}", symbol::OUT) };
        let output = match kind {
            ReturnKind::Rows { ty, array } => {
                rows(lowering, value, ty, array, site).map(|values| (OutputKind::Rows(ty), values))
            }
            ReturnKind::Table { ty, rows, chunks } => {
                table(lowering, value, (ty, rows, chunks), site).map(|values| (OutputKind::Table { ty, rows }, values))
            }
        };
        if let Some((kind, values)) = output {
            lowering.kernel.outputs.push(Output { name, kind, values });
        }
    }
}

/// The nodes of `Rows<T>` or `[Rows<T>; N]`.
fn rows(
    lowering: &mut Lowering<'_>,
    value: &Value,
    ty: FloatType,
    array: Option<u32>,
    site: Site,
) -> Option<Vec<NodeId>> {
    let element = lowering.kernel.float_text(ty).to_owned();
    let alone = [(value.clone(), site)];
    let items = match (value, array) {
        (Value::Refused, _) => return None,
        (Value::Array(items), Some(length)) if items.len() == length as usize => items.as_slice(),
        (Value::Rows(_), None) => alone.as_slice(),
        (Value::Table(_), _) => {
            lowering.errors.at(site, "a table is read through an index; write `table[row]` with an `Index` input");
            return None;
        }
        (Value::Affine(_), _) => {
            lowering
                .errors
                .at(site, format!("this is {} and no rows; read a table through it, as in `table[row]`", value.what()));
            return None;
        }
        (Value::Array(items), None) => {
            let instead = format!("write `[Rows<{element}>; {}]`", items.len());
            lowering
                .errors
                .at(site, format!("the return type is `Rows<{element}>` and this is {}; {instead}", value.what()));
            return None;
        }
        (Value::Sum(_), _) => {
            let instead = format!("write `Table<{element}, R>` as its return type");
            lowering.errors.at(site, format!("`segment_sum` makes a table and no rows; {instead}"));
            return None;
        }
        (Value::Array(_) | Value::Rows(_) | Value::Tuple(_), _) => {
            let declared = array.map_or_else(|| "1".to_owned(), |length| format!("an array of {length}"));
            lowering
                .errors
                .at(site, format!("the return type is {declared} and this is {}; make them agree", value.what()));
            return None;
        }
    };
    let mut nodes = Vec::new();
    for (item, site) in items {
        match item {
            Value::Rows(rows) => {
                same_type(lowering, rows, ty, *site)?;
                nodes.push(lowering.rows_node(rows));
            }
            Value::Refused => return None,
            Value::Affine(_) | Value::Table(_) | Value::Array(_) | Value::Sum(_) | Value::Tuple(_) => {
                lowering.errors.at(
                    site,
                    format!("an array of outputs holds rows, and one of these is {}; put rows there", item.what()),
                );
                return None;
            }
        }
    }
    Some(nodes)
}

/// The nodes of `Table<T, R, C>`.
fn table(
    lowering: &mut Lowering<'_>,
    value: &Value,
    (ty, extent, chunks): (FloatType, rowloom_codegen::ir::Extent, u32),
    site: Site,
) -> Option<Vec<NodeId>> {
    let sum: &Sum = match value {
        Value::Sum(sum) => sum,
        Value::Refused => return None,
        Value::Affine(_) | Value::Rows(_) | Value::Table(_) | Value::Array(_) | Value::Tuple(_) => {
            let instead = "write `segment_sum(rows, index)`, or `Rows<T>` as its return type";
            lowering.errors.at(site, format!("a table is returned as a sum, and this is {}; {instead}", value.what()));
            return None;
        }
    };
    if sum.chunks.len() != chunks as usize {
        let found = sum.chunks.len();
        let instead = format!(
            "write `Table<{}, {}, {found}>`",
            lowering.kernel.float_text(ty),
            extent.text(&lowering.kernel.counts)
        );
        let message =
            format!("the return type has {chunks} chunks a row and this sums {found}; {instead}, or sum {chunks}");
        lowering.errors.at(sum.site, message);
        return None;
    }
    let row = lowering.row(&sum.row, extent, sum.row_site);
    let mut nodes = Vec::new();
    for rows in &sum.chunks {
        same_type(lowering, rows, ty, sum.site)?;
        let value = lowering.rows_node(rows);
        let shape = Shape::Table(extent);
        let total = lowering.node(Op::SegmentSum { value, row }, shape, ValueType::Accumulator, sum.site);
        nodes.push(lowering.node(Op::Cast { value: total }, shape, ValueType::Stored(ty), sum.site));
    }
    Some(nodes)
}

/// Rows keep their element type on the way out.
fn same_type(lowering: &Lowering<'_>, rows: &Rows, ty: FloatType, site: Site) -> Option<()> {
    if rows.ty == ty {
        return Some(());
    }
    let (found, declared) = (lowering.kernel.float_text(rows.ty), lowering.kernel.float_text(ty));
    let instead = format!("write `{found}` there");
    lowering.errors.at(site, format!("these are rows of `{found}` and the return type says `{declared}`; {instead}"));
    None
}
