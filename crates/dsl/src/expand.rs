//! The order of the stages.

use proc_macro2::TokenStream;
use rowloom_codegen::ir::Verified;
use rowloom_codegen::{Wants, backward};

use crate::decl::Decl;
use crate::errors::Errors;
use crate::{check, emit, lower, parse};

/// From the attribute and its function to the generated module.
pub fn kernel(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let (decl, kernel) = declaration(options, item)?;
    Ok(emit::module(&decl, &kernel))
}

/// From the attribute and its function to a kernel whose backward exists.
pub fn declaration(options: TokenStream, item: TokenStream) -> syn::Result<(Decl, Verified)> {
    let errors = Errors::new();
    let decl = parse::declaration(options, item, &errors);
    let kernel = decl.as_ref().and_then(|decl| {
        check::rules(decl, &errors);
        lower::kernel(decl, &errors)
    });
    errors.check()?;
    let (decl, kernel) = decl.zip(kernel).expect("a declaration without errors is a kernel");
    // Derived here, all gradients wanted, so that what cannot be derived is found
    // at the declaration and not at a call.
    backward(&kernel, &Wants::all(&kernel));
    Ok((decl, kernel))
}
