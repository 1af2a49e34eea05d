//! Tokens to [`Decl`]. Everything of Rust that is not in the language ends here.

// syn's trees are open to new syntax: what is not named is not in the language.
#![allow(clippy::wildcard_enum_match_arm)]

mod attribute;
mod body;
mod extent;
mod generics;
mod returns;
mod types;

use proc_macro2::TokenStream;
use syn::{Attribute, FnArg, ItemFn, Pat, Signature};

use crate::decl::{Decl, Generics, Param};
use crate::errors::{Errors, Site};

/// The declaration, as far as it can be read; `None` when it is no function at all.
pub fn declaration(options: TokenStream, item: TokenStream, errors: &Errors) -> Option<Decl> {
    let options = attribute::options(options, errors);
    let item = function(item, errors)?;
    modifiers(&item, errors);
    let docs = docs(&item.attrs, "the kernel", errors);
    let generics = generics::generics(&item.sig.generics, errors);
    let (params, lacks_params) = params(&item.sig, &generics, errors);
    let returns = returns::returns(&item.sig, &generics, errors);
    let (lets, result) = body::body(&item.block, errors);
    Some(Decl {
        docs,
        vis: item.vis,
        name: item.sig.ident,
        options,
        generics,
        params,
        lacks_params,
        returns,
        lets,
        result,
    })
}

fn function(item: TokenStream, errors: &Errors) -> Option<ItemFn> {
    let function = syn::parse2::<ItemFn>(item.clone());
    if let Err(error) = &function {
        match syn::parse2::<syn::Item>(item) {
            Ok(other) => errors.at(other, "`#[kernel]` declares a function; write `#[kernel] pub fn name(...)`"),
            Err(_) => errors.push(error.clone()),
        }
    }
    function.ok()
}

/// A kernel is a plain function: nothing before `fn` but its visibility.
fn modifiers(item: &ItemFn, errors: &Errors) {
    let Signature { constness, asyncness, safety, abi, variadic, .. } = &item.sig;
    let safety = (!matches!(safety, syn::Safety::Default)).then_some(safety);
    let words = [
        constness.as_ref().map(Site::of),
        asyncness.as_ref().map(Site::of),
        safety.map(Site::of),
        abi.as_ref().map(Site::of),
    ];
    for site in words.into_iter().flatten() {
        errors.at(site, "a kernel is a plain `fn`; delete this word");
    }
    if let Some(variadic) = variadic {
        errors.at(variadic, "a kernel names each of its inputs; delete `...`");
    }
}

/// The doc comments; any other attribute is refused, as nothing would come of it.
fn docs(attrs: &[Attribute], whose: &str, errors: &Errors) -> Vec<Attribute> {
    let (docs, others): (Vec<_>, Vec<_>) = attrs.iter().cloned().partition(|attr| attr.path().is_ident("doc"));
    for other in others {
        errors.at(&other, format!("{whose} takes no attribute but doc comments; delete this one"));
    }
    docs
}

fn params(signature: &Signature, generics: &Generics, errors: &Errors) -> (Vec<Param>, bool) {
    let mut params = Vec::new();
    for input in &signature.inputs {
        let typed = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                errors.at(receiver, "a kernel belongs to no type; delete `self` and name each input");
                continue;
            }
        };
        let docs = docs(&typed.attrs, "an input", errors);
        let name = match &*typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() => {
                pat.ident.clone()
            }
            other => {
                errors.at(other, "an input has a plain name; write `name: Type`");
                continue;
            }
        };
        let kind = types::input(&typed.ty, generics, errors);
        let pad_site = types::pad_site(&typed.ty);
        params.push(Param { docs, name, kind, site: Site::of(&typed.ty), pad_site });
    }
    if signature.inputs.is_empty() {
        errors.at(Site::from(signature.paren_token.span.join()), "a kernel computes from inputs; name at least one");
    }
    let lacks_params = params.len() < signature.inputs.len();
    (params, lacks_params)
}
