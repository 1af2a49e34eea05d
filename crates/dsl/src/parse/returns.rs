//! `-> Rows<T>`, `-> [Rows<T>; 6]`, `-> Table<T, R>`, `-> (..., ...)`.

use syn::{ReturnType, Signature, Type};

use super::types;
use crate::decl::{Generics, Return, ReturnKind};
use crate::errors::{Errors, Site};
use crate::symbol;

const FORMS: &str = "write an output as `Rows<T>`, `[Rows<T>; N]` or `Table<T, R>`, several of them in a tuple";

/// The outputs. Those at fault have no kind; without a return type there are none.
pub fn returns(signature: &Signature, generics: &Generics, errors: &Errors) -> Vec<Return> {
    let ty = match &signature.output {
        ReturnType::Type(_, ty) => peel(ty),
        ReturnType::Default => {
            errors.at(
                &signature.ident,
                format!(
                    "`{}` returns nothing; after its inputs write `->` and the outputs, as in `-> Rows<T>`",
                    signature.ident
                ),
            );
            return vec![];
        }
    };
    let types: Vec<&Type> = match ty {
        Type::Tuple(tuple) if tuple.elems.len() >= 2 => tuple.elems.iter().collect(),
        Type::Tuple(tuple) => {
            errors.at(tuple, format!("a tuple is for two outputs or more; {FORMS}"));
            return vec![];
        }
        single => vec![single],
    };
    let returned = |ty| Return { kind: kind(peel(ty), generics, errors), site: Site::of(ty) };
    types.into_iter().map(returned).collect()
}

/// Without parentheses and the invisible groups of other macros.
fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Paren(paren) => peel(&paren.elem),
        Type::Group(group) => peel(&group.elem),
        other => other,
    }
}

fn kind(ty: &Type, generics: &Generics, errors: &Errors) -> Option<ReturnKind> {
    if let Type::Array(array) = ty {
        let element = peel(&array.elem);
        let written = types::written(element).filter(|written| written.word == symbol::ROWS);
        let Some(written) = written else {
            errors.at(element, "an array of outputs is of rows; write `[Rows<T>; N]`");
            return None;
        };
        let element = types::rows(element, &written, generics, errors);
        let length = types::literal(&array.len).and_then(|length| u32::try_from(length).ok());
        let length = length.filter(|&length| length > 0);
        if length.is_none() {
            errors.at(
                &array.len,
                "the length of an array of outputs is a number of at least 1; write one, as in `[Rows<T>; 6]`",
            );
        }
        return Some(ReturnKind::Rows { ty: element?, array: Some(length?) });
    }
    let Some(written) = types::written(ty) else {
        errors.at(ty, format!("this is no type of a kernel; {FORMS}"));
        return None;
    };
    if written.word == symbol::ROWS {
        let ty = types::rows(ty, &written, generics, errors)?;
        Some(ReturnKind::Rows { ty, array: None })
    } else if written.word == symbol::TABLE {
        let (ty, rows, chunks) = types::table(ty, &written, generics, errors)?;
        Some(ReturnKind::Table { ty, rows, chunks })
    } else {
        types::unknown(&written, FORMS, errors);
        None
    }
}
