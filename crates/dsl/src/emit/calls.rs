//! `plan`, `forward`, `forward_into`, `forward_deferred`, `backward`, `backward_into`,
//! `backward_f32`, and the bytes of workspace that the `_into` forms need.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use rowloom_codegen::Kernel;

use super::structs::has_f32_gradients;
use super::types::{self, Params};
use crate::decl::Decl;
use crate::lower::{determined_counts, gradient_generics, input_generics, output_generics, rows_generics};

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
    let inputs_count = types::inputs(decl).count();
    let gradient_views = quote!([::std::option::Option<::rowloom::AnyViewMut<'g>>; #inputs_count]);
    let into_doc = if kernel.rows.is_empty() {
        String::new()
    } else if kernel.sums() {
        "It sums by row, so it needs a plan: to build one would allocate.".to_owned()
    } else {
        "Without a plan it waits.".to_owned()
    };
    let f32_gradients = has_f32_gradients(decl);
    let gradients_doc = if f32_gradients { "`GradientsMut`, or `GradientsF32Mut`" } else { "`GradientsMut`" };
    let gradients_doc = format!("`gradients` are {gradients_doc}: those that are there are wanted.");
    let deferred = deferred(decl, kernel);
    let plans = plans(decl, kernel);
    let backward = |name: &str, gradients: &TokenStream, stored: TokenStream, doc: &str| {
        let name = format_ident!("{name}");
        quote! {
            #[doc = #doc]
            #[doc = ""]
            #[doc = #plan_doc]
            ///
            /// # Errors
            /// As [`forward`].
            pub fn #name<#plan_lifetime #(#bounded),*>(
                stream: &::rowloom::Stream,
                inputs: &Inputs<'_, #(#names),*>,
                cotangents: &Cotangents<'_, #(#outputs),*>,
                #plan_argument
                wants: Wants,
            ) -> ::std::result::Result<#gradients, #error> {
                #plan_value
                let arguments = #private::Arguments {
                    inputs: &inputs.any().map(::std::option::Option::Some),
                    cotangents: &cotangents.any(),
                    plans,
                };
                let stored = #stored;
                let results =
                    #private::backward(stream, declaration(), arguments, &wants.by_input(), stored)?;
                <#gradients>::take(results, wants)
            }
        }
    };
    let own = quote!(Gradients<#(#gradients),*>);
    let doc = "Computes the gradients that are wanted into new tensors, each of its input's type.";
    let backward_own = backward("backward", &own, quote!(::std::option::Option::None), doc);
    let backward_f32 = f32_gradients.then(|| {
        let rows = Params::of(decl, &rows_generics(decl)).names;
        let stored = quote!(::std::option::Option::Some(<f32 as ::rowloom::Float>::DTYPE));
        let doc = "The same with the gradients of tables in f32: what optimisers add up over many steps.";
        backward("backward_f32", &quote!(GradientsF32<#(#rows),*>), stored, doc)
    });
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

        /// Runs the kernel into tensors of the caller, and allocates nothing.
        #[doc = #into_doc]
        #[doc = ""]
        #[doc = #plan_doc]
        ///
        /// # Errors
        /// As [`forward`]; a workspace of fewer bytes than [`forward_workspace_bytes`].
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

        /// Bytes of workspace that [`forward_into`] needs for these arguments.
        ///
        /// # Errors
        /// As [`forward_into`], but for what indices hold.
        pub fn forward_workspace_bytes<#plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            #plan_argument
            outputs: OutputsMut<'_, #(#outputs),*>,
        ) -> ::std::result::Result<u64, #error> {
            #plan_value
            #private::forward_workspace_bytes(
                stream,
                declaration(),
                &inputs.any(),
                plans,
                &outputs.any(),
            )
        }

        #plans
        #deferred
        #backward_own
        #backward_f32

        /// Computes gradients into tensors of the caller, and allocates nothing.
        #[doc = #gradients_doc]
        #[doc = ""]
        #[doc = #plan_doc]
        ///
        /// # Errors
        /// As [`forward`]; a workspace of fewer bytes than [`backward_workspace_bytes`];
        /// sums without a plan.
        pub fn backward_into<'g, #plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            cotangents: &Cotangents<'_, #(#outputs),*>,
            #plan_argument
            gradients: impl ::std::convert::Into<#gradient_views>,
            workspace: &mut ::rowloom::Workspace,
        ) -> ::std::result::Result<(), #error> {
            #plan_value
            let arguments = #private::Arguments {
                inputs: &inputs.any().map(::std::option::Option::Some),
                cotangents: &cotangents.any(),
                plans,
            };
            #private::backward_into(
                stream,
                declaration(),
                arguments,
                gradients.into(),
                workspace,
            )
        }

        /// Bytes of workspace that [`backward_into`] needs for these arguments.
        ///
        /// # Errors
        /// As [`backward_into`], but for what indices hold.
        pub fn backward_workspace_bytes<'g, #plan_lifetime #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            cotangents: &Cotangents<'_, #(#outputs),*>,
            #plan_argument
            gradients: impl ::std::convert::Into<#gradient_views>,
        ) -> ::std::result::Result<u64, #error> {
            #plan_value
            let arguments = #private::Arguments {
                inputs: &inputs.any().map(::std::option::Option::Some),
                cotangents: &cotangents.any(),
                plans,
            };
            #private::backward_workspace_bytes(stream, declaration(), arguments, gradients.into())
        }
    }
}

/// `plan`, or `plans` where there are several row expressions: in the order of the calls.
fn plans(decl: &Decl, kernel: &Kernel) -> Option<TokenStream> {
    let rows: Vec<String> = kernel.rows.iter().map(|row| format!("`{}`", kernel.row_text(row))).collect();
    let Params { bounded, names } = Params::of(decl, &input_generics(decl));
    let counts = undetermined(decl);
    let count_arguments: Vec<&Ident> = counts.iter().map(|(_, argument)| argument).collect();
    let count_names = counts.iter().map(|(name, _)| name);
    let count = rows.len();
    let (name, result, of_array, doc) = match rows.as_slice() {
        [] => return None,
        [row] => {
            (quote!(plan), quote!(::rowloom::RowPlan), quote!(let [plan] = plans; plan), format!("The plan of {row}"))
        }
        _ => {
            let doc = format!("The plans of {}, in the order in which calls take them", rows.join(", "));
            (quote!(plans), quote!([::rowloom::RowPlan; #count]), quote!(plans), doc)
        }
    };
    let doc = format!("{doc}: checks and sorts these indices once, for any number of calls. Waits.");
    Some(quote! {
        #[doc = #doc]
        ///
        /// # Errors
        /// Sizes and devices that do not fit; an index out of its bound.
        pub fn #name<#(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'_, #(#names),*>,
            #(#count_arguments: u64,)*
        ) -> ::std::result::Result<#result, ::rowloom::Error> {
            let counts = [#((#count_names, #count_arguments)),*];
            let plans: [::rowloom::RowPlan; #count] =
                ::rowloom::__private::plans(stream, declaration(), &inputs.any(), &counts)?;
            ::std::result::Result::Ok({ #of_array })
        }
    })
}

/// `forward_deferred` of a kernel that checks its indices itself: what sums needs a plan first.
fn deferred(decl: &Decl, kernel: &Kernel) -> Option<TokenStream> {
    if kernel.rows.is_empty() || kernel.sums() {
        return None;
    }
    let Params { bounded, names } = Params::of(decl, &input_generics(decl));
    let outputs = Params::of(decl, &output_generics(decl)).names;
    let counts = undetermined(decl);
    let count_arguments: Vec<&Ident> = counts.iter().map(|(_, argument)| argument).collect();
    let count_names = counts.iter().map(|(name, _)| name);
    Some(quote! {
        /// Runs the kernel into new tensors without waiting for its check of the indices,
        /// which the result does.
        ///
        /// # Errors
        /// As [`forward`], but for what indices hold.
        pub fn forward_deferred<'t, #(#bounded),*>(
            stream: &::rowloom::Stream,
            inputs: &Inputs<'t, #(#names),*>,
            #(#count_arguments: u64,)*
        ) -> ::std::result::Result<::rowloom::Pending<'t, Outputs<#(#outputs),*>>, ::rowloom::Error> {
            let counts = [#((#count_names, #count_arguments)),*];
            ::rowloom::__private::forward_deferred(
                stream,
                declaration(),
                &inputs.any(),
                &counts,
                Outputs::take,
            )
        }
    })
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
