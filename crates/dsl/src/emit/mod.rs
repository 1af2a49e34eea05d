//! The generated module: the declaration as IR text, and typed calls.
//!
//! It names only `::rowloom`, takes nothing from where it stands, and holds no
//! logic: what a call does is in the runtime.

mod calls;
mod signature;
mod structs;
mod types;
mod wants;

use proc_macro2::TokenStream;
use quote::quote;
use rowloom_codegen::ir::Verified;
use syn::{Attribute, Expr, Lit, Meta};

use crate::decl::Decl;

/// The module of a declaration.
pub fn module(decl: &Decl, kernel: &Verified) -> TokenStream {
    let Decl { docs, vis, name, .. } = decl;
    let signature = signature::text(decl, kernel);
    let declared_as = format!("Declared as `{signature}`.");
    let structs = structs::structs(decl, kernel);
    let wants = wants::wants(decl);
    let calls = calls::calls(decl, kernel);
    let declaration = declaration(decl, kernel, &signature);
    // A user may call some of it only, and a private module would warn of the rest.
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = #declared_as]
        #[allow(dead_code)]
        #vis mod #name {
            #structs
            #wants
            #calls
            #declaration
        }
    }
}

fn declaration(decl: &Decl, kernel: &Verified, signature: &str) -> TokenStream {
    let ir = kernel.to_string();
    let name = decl.name.to_string();
    let docs = first_paragraph(&decl.docs);
    quote! {
        /// The declaration: canonical text, kernel and derived backward.
        pub fn declaration() -> &'static ::rowloom::Declaration {
            static DECLARATION: ::std::sync::OnceLock<::rowloom::Declaration> =
                ::std::sync::OnceLock::new();
            ::rowloom::__private::declared(&DECLARATION, #ir)
        }

        ::rowloom::__private::inventory::submit! {
            ::rowloom::Registered {
                name: #name,
                signature: #signature,
                docs: #docs,
                declaration,
            }
        }
    }
}

/// The first paragraph of doc comments, on one line.
fn first_paragraph(docs: &[Attribute]) -> String {
    let lines = docs.iter().filter_map(|attr| {
        if let Meta::NameValue(meta) = &attr.meta
            && let Expr::Lit(lit) = &meta.value
            && let Lit::Str(text) = &lit.lit
        {
            return Some(text.value());
        }
        None
    });
    let paragraph: Vec<String> = lines
        .map(|line| line.trim().to_owned())
        .skip_while(String::is_empty)
        .take_while(|line| !line.is_empty())
        .collect();
    paragraph.join(" ")
}
