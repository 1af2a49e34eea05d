//! `Table<T, R, C>`, `Rows<T>`, `Index<I, BOUND, { pad = -1 }>`.

use rowloom_codegen::dtype::{DType, IntType};
use rowloom_codegen::ir::{Extent, FloatId, FloatType, IndexType, InputKind, IntId};
use syn::{Expr, GenericArgument, Ident, Lit, PathArguments, Type, UnOp};

use super::extent::extent;
use crate::decl::Generics;
use crate::errors::{Errors, Site};
use crate::symbol;

const INPUTS: &str = "write an input as `Table<T, R>`, `Table<T, R, C>`, `Rows<T>` or `Index<I, BOUND>`";
const TABLE_FORM: &str = "write `Table<T, R>`, or `Table<T, R, C>` for rows of C chunks";
const ROWS_FORM: &str = "write `Rows<T>`";
const INDEX_FORM: &str = "write `Index<I, BOUND>`, or `Index<I, BOUND, { pad = -1 }>`";

/// A type of the language: its word and its arguments.
pub struct Written<'a> {
    /// `Table`, `Rows`, …
    pub word: &'a Ident,
    /// What stands in `<...>`.
    pub arguments: Vec<&'a GenericArgument>,
}

/// A type as a word and arguments; `None` when it has no such form.
pub fn written(ty: &Type) -> Option<Written<'_>> {
    let path = match ty {
        Type::Path(path) if path.qself.is_none() && path.path.leading_colon.is_none() => &path.path,
        Type::Group(group) => return written(&group.elem),
        Type::Paren(paren) => return written(&paren.elem),
        _ => return None,
    };
    let segment = path.segments.first().filter(|_| path.segments.len() == 1)?;
    let arguments = match &segment.arguments {
        PathArguments::None => vec![],
        PathArguments::AngleBracketed(brackets) => brackets.args.iter().collect(),
        PathArguments::Parenthesized(_) => return None,
    };
    Some(Written { word: &segment.ident, arguments })
}

/// The type of an input; `None` when reported.
pub fn input(ty: &Type, generics: &Generics, errors: &Errors) -> Option<InputKind> {
    let Some(written) = written(ty) else {
        errors.at(ty, format!("this is no type of a kernel; {INPUTS}"));
        return None;
    };
    let word = written.word.to_string();
    match word.as_str() {
        symbol::ROWS => rows(ty, &written, generics, errors).map(InputKind::Rows),
        symbol::TABLE => {
            let (ty, rows, chunks) = table(ty, &written, generics, errors)?;
            Some(InputKind::Table { ty, rows, chunks })
        }
        symbol::INDEX => index(ty, &written, generics, errors),
        _ => {
            unknown(&written, INPUTS, errors);
            None
        }
    }
}

/// Reports a type that is not of the language, or not yet.
pub fn unknown(written: &Written<'_>, forms: &str, errors: &Errors) {
    let word = written.word;
    if symbol::LATER_TYPES.iter().any(|later| word == later) {
        errors.at(word, format!("`{word}` comes with arithmetic in a later version; until then {forms}"));
    } else {
        errors.at(word, format!("`{word}` is no type of a kernel; {forms}"));
    }
}

/// `Rows<T>`.
pub fn rows(ty: &Type, written: &Written<'_>, generics: &Generics, errors: &Errors) -> Option<FloatType> {
    match written.arguments.as_slice() {
        [element] => float(element, generics, errors),
        _ => {
            errors.at(ty, format!("`Rows` has one argument, its element type; {ROWS_FORM}"));
            None
        }
    }
}

/// `Table<T, R, C>`, C being 1 when left out.
pub fn table(
    ty: &Type,
    written: &Written<'_>,
    generics: &Generics,
    errors: &Errors,
) -> Option<(FloatType, Extent, u32)> {
    let (element, count, chunk) = match *written.arguments.as_slice() {
        [element, count] => (element, count, None),
        [element, count, chunk] => (element, count, Some(chunk)),
        _ => {
            errors.at(ty, format!("`Table` has an element type, a row count and perhaps chunks; {TABLE_FORM}"));
            return None;
        }
    };
    let element = float(element, generics, errors);
    let rows = extent(count, generics, errors);
    let chunks = match chunk {
        None => Some(1),
        Some(argument) => chunks(argument, errors),
    };
    Some((element?, rows?, chunks?))
}

fn chunks(argument: &GenericArgument, errors: &Errors) -> Option<u32> {
    let chunks = match argument {
        GenericArgument::Const(expr) => literal(expr).and_then(|chunks| u32::try_from(chunks).ok()),
        _ => None,
    };
    let chunks = chunks.filter(|&chunks| chunks > 0);
    if chunks.is_none() {
        errors
            .at(argument, "the chunks of a table's row are a number of at least 1; write one, as in `Table<T, R, 6>`");
    }
    chunks
}

fn index(ty: &Type, written: &Written<'_>, generics: &Generics, errors: &Errors) -> Option<InputKind> {
    let (element, bound, pad) = match *written.arguments.as_slice() {
        [element, bound] => (element, bound, None),
        [element, bound, pad] => (element, bound, Some(pad)),
        _ => {
            errors.at(ty, format!("`Index` has an integer type, a bound and perhaps `pad`; {INDEX_FORM}"));
            return None;
        }
    };
    let element = int(element, generics, errors);
    let bound = extent(bound, generics, errors);
    let pad = match pad {
        None => Some(None),
        Some(argument) => pad_value(argument, errors).map(Some),
    };
    Some(InputKind::Index { ty: element?, bound: bound?, pad: pad? })
}

/// `{ pad = -1 }`: an assignment in a block, since Rust keeps `pad = -1` alone for
/// associated constants, and refuses it on its stable channel.
fn pad_value(argument: &GenericArgument, errors: &Errors) -> Option<i64> {
    let value = pad_expr(argument).and_then(signed);
    if value.is_none() {
        errors.at(argument, "the third argument of `Index` is the one value that means no row; write `{ pad = -1 }`");
    }
    value
}

/// Where the value of `pad` stands.
pub fn pad_site(ty: &Type) -> Option<Site> {
    written(ty)?.arguments.into_iter().find_map(pad_expr).map(Site::of)
}

fn pad_expr(argument: &GenericArgument) -> Option<&Expr> {
    let GenericArgument::Const(Expr::Block(block)) = argument else { return None };
    let [syn::Stmt::Expr(Expr::Assign(assign), None)] = block.block.stmts.as_slice() else { return None };
    let Expr::Path(key) = &*assign.left else { return None };
    key.path.is_ident(symbol::PAD).then_some(&assign.right)
}

/// A plain number, perhaps in braces or parentheses.
pub fn literal(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(int) if int.suffix().is_empty() => int.base10_parse().ok(),
            _ => None,
        },
        Expr::Paren(paren) => literal(&paren.expr),
        Expr::Group(group) => literal(&group.expr),
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(expr, None)] => literal(expr),
            _ => None,
        },
        _ => None,
    }
}

fn signed(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            // A literal may carry its sign.
            Lit::Int(int) if int.suffix().is_empty() => int.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            literal(&unary.expr).and_then(|value| 0i64.checked_sub_unsigned(value))
        }
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [syn::Stmt::Expr(expr, None)] => signed(expr),
            _ => None,
        },
        other => literal(other).and_then(|value| i64::try_from(value).ok()),
    }
}

/// The word of an argument that is a plain type name.
fn word(argument: &GenericArgument) -> Option<&Ident> {
    match argument {
        GenericArgument::Type(ty) => written(ty).filter(|ty| ty.arguments.is_empty()).map(|ty| ty.word),
        _ => None,
    }
}

fn float(argument: &GenericArgument, generics: &Generics, errors: &Errors) -> Option<FloatType> {
    let word = word(argument);
    if let Some(at) = generics.floats.iter().position(|name| Some(name) == word) {
        return Some(FloatType::Param(FloatId(at as u32)));
    }
    if let Some(fixed) = word.and_then(|word| word.to_string().parse::<DType>().ok()) {
        return Some(FloatType::Fixed(fixed));
    }
    if !word.is_some_and(|word| generics.broken.contains(word)) {
        let forms = "write a type parameter with the bound `Float`, or `f32`, `f16`, `bf16`";
        errors.at(argument, format!("this is no element type; {forms}"));
    }
    None
}

fn int(argument: &GenericArgument, generics: &Generics, errors: &Errors) -> Option<IndexType> {
    let word = word(argument);
    if let Some(at) = generics.ints.iter().position(|name| Some(name) == word) {
        return Some(IndexType::Param(IntId(at as u32)));
    }
    if let Some(fixed) = word.and_then(|word| word.to_string().parse::<IntType>().ok()) {
        return Some(IndexType::Fixed(fixed));
    }
    if !word.is_some_and(|word| generics.broken.contains(word)) {
        let forms = "write a type parameter with the bound `Int`, or `i32`, `i64`, `u8`";
        errors.at(argument, format!("this is no index type; {forms}"));
    }
    None
}
