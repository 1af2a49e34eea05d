//! `<T: Float, I: Int, const R: usize>`.

use syn::{GenericParam, Type, TypeParam, TypeParamBound};

use crate::decl::Generics;
use crate::errors::Errors;
use crate::symbol;

const FORMS: &str =
    "write `T: Float` for an element type, `I: Int` for an index type, `const R: usize` for a row count";

/// The parameters by kind.
pub fn generics(generics: &syn::Generics, errors: &Errors) -> Generics {
    let mut found = Generics::default();
    for param in &generics.params {
        match param {
            GenericParam::Lifetime(lifetime) => {
                errors.at(lifetime, "a kernel has no lifetimes; delete this one");
            }
            GenericParam::Type(param) => type_param(param, &mut found, errors),
            GenericParam::Const(param) => {
                let is_usize = matches!(&param.ty, Type::Path(ty) if ty.path.is_ident(symbol::USIZE));
                if !is_usize {
                    errors.at(&param.ty, format!("a row count is a `usize`; write `const {}: usize`", param.ident));
                }
                if let Some((_, default)) = &param.default {
                    errors.at(default, "a row count comes from the tensors of a call; delete the default");
                }
                found.counts.push(param.ident.clone());
            }
        }
    }
    if let Some(clause) = &generics.where_clause {
        errors.at(clause, "a kernel has no `where`; write each bound at its parameter, as in `T: Float`");
    }
    found
}

fn type_param(param: &TypeParam, found: &mut Generics, errors: &Errors) {
    if let Some((_, default)) = &param.default {
        errors.at(default, "a type parameter comes from the tensors of a call; delete the default");
    }
    let mut bounds = param.bounds.iter();
    let word = match (bounds.next(), bounds.next()) {
        (Some(TypeParamBound::Trait(bound)), None) => bound.path.get_ident().map(|word| word.to_string()),
        _ => None,
    };
    match word.as_deref() {
        Some(symbol::FLOAT) => found.floats.push(param.ident.clone()),
        Some(symbol::INT) => found.ints.push(param.ident.clone()),
        _ => {
            if param.bounds.is_empty() {
                errors.at(&param.ident, format!("`{}` may be of any type; {FORMS}", param.ident));
            } else {
                errors.at(&param.bounds, format!("a type parameter has one bound, `Float` or `Int`; {FORMS}"));
            }
            found.broken.push(param.ident.clone());
        }
    }
}
