//! `forward`, `forward_into`, `backward`, `backward_into`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use rowloom_codegen::Kernel;

use super::types::Params;
use crate::decl::Decl;
use crate::lower::{determined_counts, gradient_generics, input_generics, output_generics};

/// All of them.
pub fn calls(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &input_generics(decl));
    let outputs = Params::of(decl, &output_generics(decl)).names;
    let gradients = Params::of(decl, &gradient_generics(decl)).names;
    let plan = Plan::of(kernel);
    let (plan_lifetime, plan_argument, plan_value, plan_doc) = (plan.lifetime, plan.argument, plan.value, plan.doc);
    let counts = undetermined(decl);
    let count_arguments: Vec<&Ident> = counts.iter().map(|(_, argument)| argument).collect();
    let count_names = counts.iter().map(|(name, _)| name);
    let count_doc = counts.iter().map(|(name, argument)| {
        let doc = format!("`{argument}` is the row count {name}, which no input tells.");
        quote!(#[doc = ""] #[doc = #doc])
    });
    let private = quote!(::rowloom::__private);
    let error = quote!(::rowloom::Error);
    quote! {
        /// Runs the kernel into new tensors.
        #[doc = ""]
        #[doc = #plan_doc]
        #(#count_doc)*
        ///
        /// # Errors
        /// Sizes, devices and plans that do not fit, before any work; an index out
        /// of its bound.
        pub fn forward<#plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            #plan_argument
            #(#count_arguments: u64,)*
        ) -> ::std::result::Result<Outputs<#(#outputs),*>, #error> {
            #plan_value
            let counts = [#((#count_names, #count_arguments)),*];
            let results =
                #private::forward(stream, declaration(), &inputs.any(), plans, &counts)?;
            Outputs::take(results)
        }

        /// Runs the kernel into tensors of the caller.
        #[doc = ""]
        #[doc = #plan_doc]
        ///
        /// # Errors
        /// As [`forward`].
        pub fn forward_into<#plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            #plan_argument
            outputs: OutputsMut<'_, #(#outputs),*>,
            workspace: &mut ::rowloom::Workspace,
        ) -> ::std::result::Result<(), #error> {
            #plan_value
            #private::forward_into(
                stream,
                declaration(),
                &inputs.any(),
                plans,
                &mut outputs.any(),
                workspace,
            )
        }

        /// Computes the gradients that are wanted into new tensors.
        #[doc = ""]
        #[doc = #plan_doc]
        ///
        /// # Errors
        /// As [`forward`].
        pub fn backward<#plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            cotangents: &Cotangents<'_, #(#outputs),*>,
            #plan_argument
            wants: Wants,
        ) -> ::std::result::Result<Gradients<#(#gradients),*>, #error> {
            #plan_value
            let arguments = #private::Arguments {
                inputs: &inputs.any(),
                cotangents: &cotangents.any(),
                plans,
            };
            let results =
                #private::backward(stream, declaration(), arguments, &wants.by_input())?;
            Gradients::take(results, wants)
        }

        /// Computes gradients into tensors of the caller: those that are there are wanted.
        #[doc = ""]
        #[doc = #plan_doc]
        ///
        /// # Errors
        /// As [`forward`].
        pub fn backward_into<#plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            cotangents: &Cotangents<'_, #(#outputs),*>,
            #plan_argument
            gradients: GradientsMut<'_, #(#gradients),*>,
            workspace: &mut ::rowloom::Workspace,
        ) -> ::std::result::Result<(), #error> {
            #plan_value
            let arguments = #private::Arguments {
                inputs: &inputs.any(),
                cotangents: &cotangents.any(),
                plans,
            };
            #private::backward_into(
                stream,
                declaration(),
                arguments,
                gradients.any(),
                workspace,
            )
        }
    }
}

/// How a call takes its plans: none without row expressions, one, or an array.
struct Plan {
    lifetime: TokenStream,
    argument: TokenStream,
    /// Binds `plans: Option<&[&RowPlan]>`.
    value: TokenStream,
    doc: String,
}

impl Plan {
    fn of(kernel: &Kernel) -> Plan {
        let plan = quote!(&'p ::rowloom::RowPlan);
        let rows: Vec<String> = kernel.rows.iter().map(|row| format!("`{}`", kernel.row_text(row))).collect();
        let count = rows.len();
        match rows.as_slice() {
            [] => Plan {
                lifetime: quote!(),
                argument: quote!(),
                value: quote!(let plans = ::std::option::Option::None;),
                doc: "It goes through no index.".to_owned(),
            },
            [row] => Plan {
                lifetime: quote!('p,),
                argument: quote!(plan: impl ::std::convert::Into<::std::option::Option<#plan>>,),
                value: quote! {
                    let plan = plan.into().map(|plan| [plan]);
                    let plans = plan.as_ref().map(|plan| plan.as_slice());
                },
                doc: format!("`plan` is that of {row}; without it the indices are checked."),
            },
            _ => Plan {
                lifetime: quote!('p,),
                argument: quote!(plans: impl ::std::convert::Into<::std::option::Option<[#plan; #count]>>,),
                value: quote! {
                    let plans = plans.into();
                    let plans = plans.as_ref().map(|plans| plans.as_slice());
                },
                doc: format!("`plans` are those of {}; without them the indices are checked.", rows.join(", ")),
            },
        }
    }
}

/// The row counts that no input tells: their names, and those of their arguments.
fn undetermined(decl: &Decl) -> Vec<(String, Ident)> {
    let counts = decl.generics.counts.iter().zip(determined_counts(decl));
    let counts = counts.filter(|(_, determined)| !determined);
    let mut taken = std::collections::HashSet::new();
    counts
        .map(|(name, _)| {
            let mut argument = format!("rows_{}", name.to_string().to_lowercase());
            // `R` and `r` are two row counts.
            while !taken.insert(argument.clone()) {
                argument.push('_');
            }
            (name.to_string(), format_ident!("{argument}"))
        })
        .collect()
}
