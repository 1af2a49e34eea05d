//! `R`, `9`, `{ R / 3 }`, `{ N * 3 }`: a number of rows.

use rowloom_codegen::ir::{CountId, Extent};
use syn::{BinOp, Block, Expr, GenericArgument, Lit, Stmt, Type};

use crate::decl::Generics;
use crate::errors::{Errors, Site};

const FORMS: &str = "write a row count, a number, or a row count times or divided by numbers, as in `{ R / 3 }`";

/// The number of rows that a generic argument says; `None` when reported.
pub fn extent(argument: &GenericArgument, generics: &Generics, errors: &Errors) -> Option<Extent> {
    let ratio = match argument {
        GenericArgument::Const(expr) => ratio(expr, generics, errors)?,
        GenericArgument::Type(Type::Path(ty)) if ty.qself.is_none() => name(&ty.path, generics, errors)?,
        _ => {
            errors.at(argument, format!("this is no number of rows; {FORMS}"));
            return None;
        }
    };
    settle(ratio, Site::of(argument), generics, errors)
}

/// `count * numerator / denominator`, not yet in lowest terms.
struct Ratio {
    count: Option<CountId>,
    numerator: u64,
    denominator: u64,
}

fn ratio(expr: &Expr, generics: &Generics, errors: &Errors) -> Option<Ratio> {
    match expr {
        Expr::Lit(lit) => Some(Ratio { count: None, numerator: number(&lit.lit, errors)?, denominator: 1 }),
        Expr::Path(path) if path.qself.is_none() => name(&path.path, generics, errors),
        Expr::Paren(paren) => ratio(&paren.expr, generics, errors),
        Expr::Group(group) => ratio(&group.expr, generics, errors),
        Expr::Block(block) => match only_expr(&block.block) {
            Some(expr) => ratio(expr, generics, errors),
            None => refuse(expr, errors),
        },
        Expr::Binary(binary) => {
            let (left, right) = (ratio(&binary.left, generics, errors), ratio(&binary.right, generics, errors));
            let (left, right) = left.zip(right)?;
            let combined = match binary.op {
                BinOp::Mul(_) if left.count.is_none() || right.count.is_none() => Some(Ratio {
                    count: left.count.or(right.count),
                    numerator: overflow(left.numerator.checked_mul(right.numerator), expr, errors)?,
                    denominator: overflow(left.denominator.checked_mul(right.denominator), expr, errors)?,
                }),
                BinOp::Div(_) if right.count.is_none() && right.denominator == 1 && right.numerator > 0 => {
                    Some(Ratio {
                        count: left.count,
                        numerator: left.numerator,
                        denominator: overflow(left.denominator.checked_mul(right.numerator), expr, errors)?,
                    })
                }
                _ => None,
            };
            if combined.is_none() {
                errors.at(binary.op, format!("a number of rows cannot be computed like this; {FORMS}"));
            }
            combined
        }
        other => refuse(other, errors),
    }
}

fn refuse(expr: &Expr, errors: &Errors) -> Option<Ratio> {
    errors.at(expr, format!("this is no number of rows; {FORMS}"));
    None
}

fn overflow(value: Option<u64>, expr: &Expr, errors: &Errors) -> Option<u64> {
    if value.is_none() {
        errors.at(expr, "this number of rows does not fit 64 bits; write a smaller one");
    }
    value
}

fn only_expr(block: &Block) -> Option<&Expr> {
    match block.stmts.as_slice() {
        [Stmt::Expr(expr, None)] => Some(expr),
        _ => None,
    }
}

fn name(path: &syn::Path, generics: &Generics, errors: &Errors) -> Option<Ratio> {
    let ident = path.get_ident();
    let count = ident.and_then(|ident| generics.counts.iter().position(|count| count == ident));
    match (count, ident) {
        (Some(at), _) => Some(Ratio { count: Some(CountId(at as u32)), numerator: 1, denominator: 1 }),
        (None, Some(ident)) if generics.broken.contains(ident) => None,
        (None, Some(ident)) => {
            let instead = format!("declare `const {ident}: usize` in the `<...>` after the kernel's name");
            errors.at(ident, format!("`{ident}` is no row count; {instead}, or write a number"));
            None
        }
        (None, None) => {
            errors.at(path, format!("this is no number of rows; {FORMS}"));
            None
        }
    }
}

/// A literal number of rows.
fn number(lit: &Lit, errors: &Errors) -> Option<u64> {
    let value = match lit {
        Lit::Int(int) if int.suffix().is_empty() => int.base10_parse().ok(),
        _ => None,
    };
    if value.is_none() {
        errors.at(lit, "a number of rows is a plain whole number; write one, as in `9`");
    }
    value
}

/// In lowest terms: a division that a multiplication would undo asks more of the
/// row count than the result shows, so the short form must be written.
fn settle(ratio: Ratio, site: Site, generics: &Generics, errors: &Errors) -> Option<Extent> {
    let Ratio { count, numerator, denominator } = ratio;
    if numerator == 0 {
        errors.at(site, "this is no rows at all; write at least 1");
        return None;
    }
    let divisor = gcd(numerator, denominator);
    let extent = Extent { count, numerator: numerator / divisor, denominator: denominator / divisor };
    if count.is_none() && extent.denominator != 1 {
        errors.at(site, format!("{numerator} / {denominator} is no whole number of rows; write one"));
        return None;
    }
    if count.is_some() && divisor != 1 {
        let short = extent.text(&generics.count_names());
        errors.at(site, format!("this is `{short}` in more words; write `{short}`"));
        return None;
    }
    Some(extent)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
