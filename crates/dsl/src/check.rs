//! Rules of a declaration that need no types: names and uses. One rule, one
//! function. The parser has checked forms; the lowering checks types; the IR's
//! verifier checks bounds.

use std::collections::HashSet;

use proc_macro2::Ident;
use syn::ext::IdentExt;

use crate::decl::{Decl, Expr};
use crate::errors::Errors;
use crate::symbol;

/// Every rule.
pub fn rules(decl: &Decl, errors: &Errors) {
    names_are_plain(decl, errors);
    names_are_free(decl, errors);
    generics_are_distinct(decl, errors);
    values_are_distinct(decl, errors);
    gradients_are_distinct(decl, errors);
    generics_are_used(decl, errors);
    element_types_have_an_input(decl, errors);
    params_are_used(decl, errors);
    lets_are_used(decl, errors);
}

/// Names that outlive the macro: they stand in generated text.
fn kept_names(decl: &Decl) -> impl Iterator<Item = &Ident> {
    [&decl.name].into_iter().chain(decl.generics.names()).chain(decl.params.iter().map(|param| &param.name))
}

/// Generated C++ keeps the user's names, so they are ASCII and no keyword here.
fn names_are_plain(decl: &Decl, errors: &Errors) {
    for name in kept_names(decl) {
        let text = name.to_string();
        if name.unraw() != *name {
            errors.at(name, format!("`{text}` is a word of Rust; choose another name"));
        } else if !text.is_ascii() {
            errors.at(name, format!("`{text}` stands in generated source; write it in ASCII letters, digits and `_`"));
        }
    }
}

/// Words of the language, and names the generated text gives itself.
fn names_are_free(decl: &Decl, errors: &Errors) {
    for name in kept_names(decl) {
        let text = name.to_string();
        if symbol::RESERVED.contains(&text.as_str()) {
            errors.at(name, format!("`{text}` is a word of the language; choose another name"));
        }
    }
    for name in decl.params.iter().map(|param| &param.name) {
        let text = name.to_string();
        let numbered = |prefix| {
            let digits: Option<&str> = text.strip_prefix(prefix);
            digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if text.starts_with(symbol::GRADIENT) {
            let instead = "names that begin with `d_` are those of gradients; choose another name";
            errors.at(name, format!("`{text}` reads as a gradient: {instead}"));
        } else if text.starts_with(symbol::PRIMITIVE) || numbered(symbol::OUT) {
            errors.at(name, format!("generated source gives the name `{text}` itself; choose another name"));
        }
    }
}

/// Two parameters of one name.
fn generics_are_distinct(decl: &Decl, errors: &Errors) {
    let mut seen = HashSet::new();
    for name in decl.generics.names() {
        if !seen.insert(name) {
            errors.at(name, format!("`{name}` is declared twice; choose another name"));
        }
    }
}

/// Inputs and `let` names share one namespace, and nothing is shadowed: a name
/// in the source means one value.
fn values_are_distinct(decl: &Decl, errors: &Errors) {
    let params = decl.params.iter().map(|param| &param.name);
    let lets = decl.lets.iter().flat_map(|binding| binding.pattern.names());
    let mut seen = HashSet::new();
    for name in params.chain(lets) {
        if !seen.insert(name) {
            errors.at(name, format!("`{name}` is already the name of another value; choose another name"));
        }
    }
}

/// The gradient of `table` is asked for as `Wants::TABLE`.
fn gradients_are_distinct(decl: &Decl, errors: &Errors) {
    let mut seen: Vec<(&Ident, String)> = Vec::new();
    for name in decl.params.iter().map(|param| &param.name) {
        let upper = name.to_string().to_uppercase();
        match seen.iter().find(|(other, seen)| *seen == upper && *other != name) {
            Some((other, _)) => {
                errors.at(name, format!("`{name}` differs from `{other}` in case only; choose another name"));
            }
            None => seen.push((name, upper)),
        }
    }
}

/// Whether an input at fault may name what seems unnamed.
fn inputs_are_in_doubt(decl: &Decl) -> bool {
    decl.lacks_params || decl.params.iter().any(|param| param.kind.is_none())
}

/// A type parameter or row count that no type names could not be determined by any call.
fn generics_are_used(decl: &Decl, errors: &Errors) {
    // A type at fault may be the one that names it.
    if inputs_are_in_doubt(decl) || decl.returns.iter().any(|output| output.kind.is_none()) {
        return;
    }
    let used = crate::lower::used_generics(decl);
    let unused = |names: &[Ident], used: &[bool], what: &str| {
        for (name, _) in names.iter().zip(used).filter(|(_, used)| !**used) {
            errors.at(name, format!("no input and no output names `{name}`; use this {what} or delete it"));
        }
    };
    unused(&decl.generics.floats, &used.floats, "element type");
    unused(&decl.generics.ints, &used.ints, "index type");
    unused(&decl.generics.counts, &used.counts, "row count");
}

/// An element type that only an output names is none that a call could know.
fn element_types_have_an_input(decl: &Decl, errors: &Errors) {
    if inputs_are_in_doubt(decl) {
        return;
    }
    let inputs = crate::lower::input_generics(decl);
    let used = crate::lower::used_generics(decl);
    for (at, name) in decl.generics.floats.iter().enumerate() {
        if used.floats[at] && !inputs.floats[at] {
            let instead = "give an input this type, or write `f32`, `f16` or `bf16`";
            errors.at(name, format!("no input has the element type `{name}`, so no call could know it; {instead}"));
        }
    }
}

/// Names that expressions refer to.
fn used_names(decl: &Decl) -> HashSet<&Ident> {
    let mut used = HashSet::new();
    let expressions = decl.lets.iter().map(|binding| &binding.value).chain([&decl.result]);
    for expression in expressions {
        expression.each_name(&mut |name| {
            used.insert(name);
        });
    }
    used
}

/// Whether some expression was refused, and with it perhaps the use of a name.
fn body_is_whole(decl: &Decl) -> bool {
    decl.lets.iter().map(|binding| &binding.value).chain([&decl.result]).all(Expr::is_whole)
}

/// An input that nothing reads is a mistake, and would have no gradient.
fn params_are_used(decl: &Decl, errors: &Errors) {
    if !body_is_whole(decl) {
        return;
    }
    let used = used_names(decl);
    // One whose type is at fault has its error.
    for param in decl.params.iter().filter(|param| param.kind.is_some() && !used.contains(&param.name)) {
        errors.at(&param.name, format!("`{}` is never used; use it or delete it", param.name));
    }
}

/// The same for names of values.
fn lets_are_used(decl: &Decl, errors: &Errors) {
    if !body_is_whole(decl) {
        return;
    }
    let used = used_names(decl);
    for name in decl.lets.iter().flat_map(|binding| binding.pattern.names()).filter(|name| !used.contains(name)) {
        errors.at(name, format!("`{name}` is never used; use it, or in a chunk pattern write `_`"));
    }
}
