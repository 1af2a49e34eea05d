//! Statements and expressions.

use proc_macro2::Ident;
use syn::{BinOp, Block, Lit, Local, Pat, Stmt};

use crate::decl::{BinaryOp, Expr, Let, Pattern};
use crate::errors::{Errors, Site};
use crate::symbol;

const LATER: &str = "arithmetic on rows comes in a later version; until then return rows as they are";

/// The statements and what is returned.
pub fn body(block: &Block, errors: &Errors) -> (Vec<Let>, Expr) {
    let (last, before) = match block.stmts.split_last() {
        Some((Stmt::Expr(last, semicolon), before)) => {
            if let Some(semicolon) = semicolon {
                errors.at(semicolon, "the kernel returns its last line; delete this semicolon");
            }
            (Some(last), before)
        }
        _ => (None, block.stmts.as_slice()),
    };
    let lets = before.iter().filter_map(|stmt| statement(stmt, errors)).collect();
    let result = last.map(|last| expr(last, errors)).unwrap_or_else(|| {
        let instead = "write what it returns last, as in `table[row]`";
        errors.at(Site::from(block.brace_token.span.close()), format!("the kernel ends without a value; {instead}"));
        Expr::Refused
    });
    (lets, result)
}

fn statement(stmt: &Stmt, errors: &Errors) -> Option<Let> {
    match stmt {
        Stmt::Local(local) => Some(binding(local, errors)),
        _ => {
            errors.at(stmt, "this line does nothing; delete it, or give its value a name with `let`");
            None
        }
    }
}

fn binding(local: &Local, errors: &Errors) -> Let {
    for attr in &local.attrs {
        errors.at(attr, "a `let` takes no attribute; delete this one");
    }
    let value = match &local.init {
        Some(init) => {
            if let Some((word, block)) = &init.diverge {
                errors.at(Site::of(quote::quote!(#word #block)), "a `let` has no `else`; delete it");
            }
            expr(&init.expr, errors)
        }
        None => {
            errors.at(&local.pat, "a `let` gives a value a name; write `let name = value;`");
            Expr::Refused
        }
    };
    Let { pattern: pattern(&local.pat, errors), value }
}

fn pattern(pat: &Pat, errors: &Errors) -> Pattern {
    match pat {
        Pat::Ident(_) => plain_name(pat, errors).map_or(Pattern::Refused, Pattern::Name),
        Pat::Slice(slice) => {
            let (mut before, mut after) = (Vec::new(), None::<Vec<Option<Ident>>>);
            for element in &slice.elems {
                let name = match element {
                    Pat::Rest(rest) => {
                        if after.replace(Vec::new()).is_some() {
                            errors.at(rest, "a chunk pattern has one `..`; delete this one");
                            return Pattern::Refused;
                        }
                        continue;
                    }
                    Pat::Wild(_) => None,
                    element => match plain_name(element, errors) {
                        Some(name) => Some(name),
                        None => return Pattern::Refused,
                    },
                };
                after.as_mut().unwrap_or(&mut before).push(name);
            }
            Pattern::Chunks { before, after, site: Site::of(slice) }
        }
        Pat::Type(typed) => {
            errors.at(typed.colon_token, "types follow from the value; write `let name = value;`");
            pattern(&typed.pat, errors);
            Pattern::Refused
        }
        Pat::Wild(_) => {
            errors.at(pat, "a value without a name is never used; delete this line");
            Pattern::Refused
        }
        other => {
            errors.at(
                other,
                "a `let` binds one name, or the chunks of a row as in `let [shift, scale, ..] = table[row];`",
            );
            Pattern::Refused
        }
    }
}

fn plain_name(pat: &Pat, errors: &Errors) -> Option<Ident> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() => {
            Some(pat.ident.clone())
        }
        other => {
            errors.at(other, "this is no plain name; values have one name and never change");
            None
        }
    }
}

fn expr(written: &syn::Expr, errors: &Errors) -> Expr {
    let site = Site::of(written);
    match written {
        syn::Expr::Path(path) => match path.path.get_ident() {
            Some(name) if path.qself.is_none() => Expr::Name(name.clone()),
            _ => refuse(site, "a kernel knows its inputs and its `let` names only; write one of them", errors),
        },
        syn::Expr::Paren(paren) => expr(&paren.expr, errors),
        syn::Expr::Group(group) => expr(&group.expr, errors),
        syn::Expr::Lit(lit) => literal(&lit.lit, errors),
        syn::Expr::Binary(binary) => self::binary(binary, errors),
        syn::Expr::Index(index) => Expr::Indexed {
            base: Box::new(expr(&index.expr, errors)),
            index: Box::new(expr(&index.index, errors)),
            site,
        },
        syn::Expr::Array(array) => Expr::Array(array.elems.iter().map(|item| expr(item, errors)).collect(), site),
        syn::Expr::Tuple(tuple) => Expr::Tuple(tuple.elems.iter().map(|item| expr(item, errors)).collect(), site),
        syn::Expr::Call(call) => self::call(call, errors),
        syn::Expr::Cast(cast) => {
            expr(&cast.expr, errors);
            refuse(Site::of(cast.as_token), &format!("`as` rounds the result of arithmetic; {LATER}"), errors)
        }
        syn::Expr::Unary(unary) => {
            expr(&unary.expr, errors);
            refuse(Site::of(unary.op), &format!("nothing is negated here; {LATER}"), errors)
        }
        syn::Expr::MethodCall(call) => {
            refuse(Site::of(&call.method), "a kernel has no methods; write `table[row]` to read a table", errors)
        }
        syn::Expr::Return(_) => refuse(site, "delete `return`: a kernel returns its last line", errors),
        syn::Expr::If(_) | syn::Expr::Match(_) | syn::Expr::ForLoop(_) | syn::Expr::While(_) | syn::Expr::Loop(_) => {
            refuse(site, "a kernel does the same at every position; write it without branches and loops", errors)
        }
        syn::Expr::Repeat(_) => refuse(site, "write each value of the array, as in `[a, b]`", errors),
        _ => refuse(site, "a kernel has no such expression; write `table[row]` to read a table", errors),
    }
}

fn refuse(site: Site, message: &str, errors: &Errors) -> Expr {
    errors.at(site, message);
    Expr::Refused
}

fn literal(lit: &Lit, errors: &Errors) -> Expr {
    let site = Site::of(lit);
    match lit {
        Lit::Int(int) if int.suffix().is_empty() => match int.base10_parse() {
            Ok(value) => Expr::Integer(value, site),
            Err(_) => refuse(site, "this number does not fit 64 bits; write a smaller one", errors),
        },
        Lit::Int(int) => refuse(site, &format!("numbers carry no type here; write `{}`", int.base10_digits()), errors),
        Lit::Float(_) => refuse(site, &format!("this is no whole number; {LATER}"), errors),
        _ => refuse(site, "a kernel computes with whole numbers in index expressions only; write one", errors),
    }
}

fn binary(binary: &syn::ExprBinary, errors: &Errors) -> Expr {
    let op_site = Site::of(binary.op);
    let op = match binary.op {
        BinOp::Add(_) => BinaryOp::Add,
        BinOp::Mul(_) => BinaryOp::Mul,
        BinOp::Sub(_) => BinaryOp::Sub,
        BinOp::Div(_) => BinaryOp::Div,
        BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_) => {
            return refuse(op_site, &format!("nothing is compared here; {LATER}"), errors);
        }
        BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) => {
            return refuse(op_site, "values never change; give the new one its own `let`", errors);
        }
        _ => {
            return refuse(
                op_site,
                "a kernel has no such operator; write an index expression with `+` and `*`",
                errors,
            );
        }
    };
    let (left, right) = (expr(&binary.left, errors), expr(&binary.right, errors));
    Expr::Binary { op, op_site, left: Box::new(left), right: Box::new(right), site: Site::of(binary) }
}

fn call(call: &syn::ExprCall, errors: &Errors) -> Expr {
    let name = match &*call.func {
        syn::Expr::Path(path) => path.path.get_ident(),
        _ => None,
    };
    let Some(name) = name else {
        return refuse(
            Site::of(&call.func),
            "this is no function of a kernel; write `segment_sum(rows, index)`, the only one",
            errors,
        );
    };
    if symbol::LATER_FUNCTIONS.iter().any(|later| name == later) {
        return refuse(name.span().into(), &format!("`{name}` is not there yet; {LATER}"), errors);
    }
    if name != symbol::SEGMENT_SUM {
        let message = format!("`{name}` is no function of a kernel; write `segment_sum(rows, index)`, the only one");
        return refuse(name.span().into(), &message, errors);
    }
    let arguments: Vec<&syn::Expr> = call.args.iter().collect();
    match arguments.as_slice() {
        [value, index] => Expr::SegmentSum {
            value: Box::new(expr(value, errors)),
            index: Box::new(expr(index, errors)),
            site: Site::of(call),
        },
        _ => refuse(
            Site::of(call),
            "`segment_sum` takes what is summed and the row of each position; write `segment_sum(rows, index)`",
            errors,
        ),
    }
}
