//! [`Decl`] to [`Kernel`], checked by types here and by the verifier after.

mod body;
mod generics;
mod outputs;
mod value;

use std::collections::HashMap;

use proc_macro2::Ident;
use rowloom_codegen::ir::{
    Direction, FloatParam, FloatType, Input, Kernel, Node, NodeId, Op, Place, RowExpr, RowId, Shape, ValueType,
    Verified,
};

pub use generics::{
    Used, determined_counts, gradient_generics, input_generics, output_generics, rows_generics, used_generics,
};

use crate::decl::Decl;
use crate::errors::{Errors, Site};
use value::{Affine, Rows, Value};

/// The verified kernel of a declaration; `None` when something was at fault,
/// here or before.
pub fn kernel(decl: &Decl, errors: &Errors) -> Option<Verified> {
    let mut lowering = Lowering::new(decl, errors);
    body::body(&mut lowering);
    if !errors.is_empty() {
        return None;
    }
    let Lowering { kernel, sites, .. } = lowering;
    match kernel.verify() {
        Ok(kernel) => Some(kernel),
        Err(faults) => {
            for fault in faults {
                errors.at(sites.of(decl, fault.place), &fault.message);
            }
            None
        }
    }
}

/// A kernel in the making.
struct Lowering<'a> {
    decl: &'a Decl,
    errors: &'a Errors,
    kernel: Kernel,
    sites: Sites,
    /// What each name means so far.
    names: HashMap<&'a Ident, Value>,
}

/// From the kernel's ids back to the user's tokens.
#[derive(Default)]
struct Sites {
    rows: Vec<Site>,
    nodes: Vec<Site>,
}

impl Sites {
    fn of(&self, decl: &Decl, place: Place) -> Site {
        match place {
            Place::Kernel => Site::of(&decl.name),
            Place::Input(input) => {
                let param = &decl.params[input.index()];
                param.pad_site.unwrap_or(param.site)
            }
            Place::Row(row) => self.rows[row.index()],
            Place::Node(node) => self.nodes[node.index()],
            Place::Output(at) => decl.returns[at].site,
            Place::Order => decl.options.order_site.unwrap_or_else(|| Site::of(&decl.name)),
        }
    }
}

impl<'a> Lowering<'a> {
    fn new(decl: &'a Decl, errors: &'a Errors) -> Lowering<'a> {
        let names = |names: &[Ident]| names.iter().map(Ident::to_string).collect::<Vec<_>>();
        let floats = names(&decl.generics.floats);
        // An input at fault stands as it is, so that the numbers of the others are their places.
        let inputs = decl.params.iter().map(|param| Input {
            name: param.name.to_string(),
            kind: param
                .kind
                .unwrap_or(rowloom_codegen::ir::InputKind::Rows(FloatType::Fixed(rowloom_codegen::DType::F32))),
            count: 1,
        });
        let kernel = Kernel {
            name: decl.name.to_string(),
            direction: Direction::Forward,
            order: decl.options.order,
            tiles: decl.options.tiles.clone(),
            floats: floats.into_iter().map(|name| FloatParam { name, default: None }).collect(),
            ints: names(&decl.generics.ints),
            counts: decl.generics.count_names(),
            inputs: inputs.collect(),
            rows: vec![],
            nodes: vec![],
            outputs: vec![],
        };
        Lowering { decl, errors, kernel, sites: Sites::default(), names: HashMap::new() }
    }

    /// The row expression of this combination and row count, each distinct one once.
    fn row(&mut self, affine: &Affine, rows: rowloom_codegen::ir::Extent, site: Site) -> RowId {
        let row = RowExpr { terms: affine.terms.clone(), offset: affine.offset, rows };
        let known = self.kernel.rows.iter().position(|other| *other == row);
        let at = known.unwrap_or_else(|| {
            self.kernel.rows.push(row);
            self.sites.rows.push(site);
            self.kernel.rows.len() - 1
        });
        RowId(at as u32)
    }

    /// The node of this operation, each distinct one once.
    fn node(&mut self, op: Op, shape: Shape, ty: ValueType, site: Site) -> NodeId {
        let node = Node { op, shape, ty, origin: None };
        let known = self.kernel.nodes.iter().position(|other| *other == node);
        let at = known.unwrap_or_else(|| {
            self.kernel.nodes.push(node);
            self.sites.nodes.push(site);
            self.kernel.nodes.len() - 1
        });
        NodeId(at as u32)
    }

    /// The node of rows that are needed.
    fn rows_node(&mut self, rows: &Rows) -> NodeId {
        self.node(rows.op.clone(), Shape::Rows, ValueType::Stored(rows.ty), rows.site)
    }

    /// Reports, and stands in for the value.
    fn refuse(&self, site: impl quote::ToTokens, message: impl std::fmt::Display) -> Value {
        self.errors.at(site, message);
        Value::Refused
    }
}
