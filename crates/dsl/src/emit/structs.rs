//! `Inputs`, `Outputs`, `OutputsMut`, `Cotangents`, `Gradients`, `GradientsMut`,
//! `GradientsF32`, `GradientsF32Mut`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use rowloom_codegen::ir::{FloatType, InputKind};
use rowloom_codegen::{DType, Kernel};

use super::signature;
use super::types::{self, Params};
use crate::decl::{Decl, ReturnKind};
use crate::lower::{gradient_generics, input_generics, output_generics, rows_generics};

/// All of them.
pub fn structs(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let parts = [inputs(decl, kernel), outputs(decl, kernel), cotangents(decl, kernel), gradients(decl, kernel)];
    quote!(#(#parts)*)
}

fn inputs(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &input_generics(decl));
    let fields = types::inputs(decl).map(|(param, kind)| {
        let (name, docs, element) = (&param.name, &param.docs, types::input(decl, kind));
        let doc = format!("`{}`: {}.", signature::input(kernel, kind), signature::input_shape(kernel, kind));
        quote! {
            #(#docs)*
            #[doc = ""]
            #[doc = #doc]
            pub #name: ::rowloom::View<'a, #element>
        }
    });
    let values: Vec<&Ident> = decl.params.iter().map(|param| &param.name).collect();
    let count = values.len();
    quote! {
        /// What the kernel reads.
        #[derive(Clone, Copy, Debug)]
        pub struct Inputs<'a, #(#names),*> {
            #(#fields),*
        }

        impl<'a, #(#bounded),*> Inputs<'a, #(#names),*> {
            fn any(&self) -> [::rowloom::AnyView<'a>; #count] {
                [#(self.#values.any()),*]
            }
        }
    }
}

/// One field per output.
fn output_fields(decl: &Decl, kernel: &Kernel, tensor: &dyn Fn(TokenStream) -> TokenStream) -> Vec<TokenStream> {
    let field = |(name, kind): &(Ident, ReturnKind)| {
        let ty = types::output(decl, *kind, tensor);
        let doc = format!("`{}`: {}.", signature::output(kernel, *kind), signature::output_shape(kernel, *kind));
        quote! {
            #[doc = #doc]
            pub #name: #ty
        }
    };
    types::outputs(decl, kernel).iter().map(field).collect()
}

/// Tensors of an output that is an array.
fn array(kind: ReturnKind) -> Option<usize> {
    match kind {
        ReturnKind::Rows { array, .. } => array.map(|length| length as usize),
        ReturnKind::Table { .. } => None,
    }
}

/// All tensors of the outputs, one after the other.
fn each_output(outputs: &[(Ident, ReturnKind)]) -> Vec<TokenStream> {
    let places = |(name, kind): &(Ident, ReturnKind)| match array(*kind) {
        Some(length) => (0..length).map(|at| quote!(#name[#at])).collect(),
        None => vec![quote!(#name)],
    };
    outputs.iter().flat_map(places).collect()
}

fn outputs(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &output_generics(decl));
    let owned = output_fields(decl, kernel, &|element| quote!(::rowloom::Tensor<#element>));
    let borrowed = output_fields(decl, kernel, &|element| quote!(::rowloom::ViewMut<'a, #element>));
    let outputs = types::outputs(decl, kernel);
    let views = outputs.iter().map(|(name, kind)| match array(*kind) {
        Some(_) => quote!(#name: self.#name.each_mut().map(::rowloom::Tensor::view_mut)),
        None => quote!(#name: self.#name.view_mut()),
    });
    // An array is taken apart, since views to be written cannot be copied out of it.
    let mut number = 0_usize;
    let patterns = outputs.iter().map(|(name, kind)| {
        let mut view = || {
            number += 1;
            format_ident!("view{number}")
        };
        match array(*kind) {
            Some(length) => {
                let views = (0..length).map(|_| view());
                quote!(#name: [#(#views),*])
            }
            None => {
                let view = view();
                quote!(#name: #view)
            }
        }
    });
    let patterns: Vec<TokenStream> = patterns.collect();
    let count = number;
    let anys = (1..=count).map(|number| format_ident!("view{number}"));
    let results = outputs.iter().map(|(name, kind)| match array(*kind) {
        Some(_) => quote!(#name: results.array()?),
        None => quote!(#name: results.one()?),
    });
    quote! {
        /// What the kernel returns.
        #[derive(Debug)]
        pub struct Outputs<#(#names),*> {
            #(#owned),*
        }

        /// Where the kernel writes.
        #[derive(Debug)]
        pub struct OutputsMut<'a, #(#names),*> {
            #(#borrowed),*
        }

        impl<#(#bounded),*> Outputs<#(#names),*> {
            /// All of them, to be written again.
            pub fn view_mut(&mut self) -> OutputsMut<'_, #(#names),*> {
                OutputsMut { #(#views),* }
            }

            fn take(
                mut results: ::rowloom::__private::Results,
            ) -> ::std::result::Result<Self, ::rowloom::Error> {
                ::std::result::Result::Ok(Outputs { #(#results),* })
            }
        }

        impl<'a, #(#bounded),*> OutputsMut<'a, #(#names),*> {
            fn any(self) -> [::rowloom::AnyViewMut<'a>; #count] {
                let OutputsMut { #(#patterns),* } = self;
                [#(#anys.any()),*]
            }
        }
    }
}

fn cotangents(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &output_generics(decl));
    let fields = output_fields(decl, kernel, &|element| quote!(::rowloom::View<'a, #element>));
    let anys = each_output(&types::outputs(decl, kernel));
    let count = anys.len();
    quote! {
        /// The gradient of the loss by each output.
        #[derive(Clone, Copy, Debug)]
        pub struct Cotangents<'a, #(#names),*> {
            #(#fields),*
        }

        impl<'a, #(#bounded),*> Cotangents<'a, #(#names),*> {
            fn any(&self) -> [::rowloom::AnyView<'a>; #count] {
                [#(self.#anys.any()),*]
            }
        }
    }
}

/// The type that the gradients of tables are stored in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    AsTheTable,
    F32,
}

fn gradients(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let own = gradients_stored(decl, kernel, Stored::AsTheTable);
    let f32 = has_f32_gradients(decl).then(|| gradients_stored(decl, kernel, Stored::F32));
    quote!(#own #f32)
}

/// Whether a table may hold another type than f32.
pub fn has_f32_gradients(decl: &Decl) -> bool {
    types::inputs(decl).any(|(_, kind)| match kind {
        InputKind::Table { ty, .. } => ty != FloatType::Fixed(DType::F32),
        InputKind::Rows(_) | InputKind::Index { .. } => false,
    })
}

fn gradients_stored(decl: &Decl, kernel: &Kernel, stored: Stored) -> TokenStream {
    let (owned_name, borrowed_name, of_tables, used) = match stored {
        Stored::AsTheTable => ("Gradients", "GradientsMut", "", gradient_generics(decl)),
        Stored::F32 => ("GradientsF32", "GradientsF32Mut", "; that of a table in f32", rows_generics(decl)),
    };
    let (owned_name, borrowed_name) = (format_ident!("{owned_name}"), format_ident!("{borrowed_name}"));
    let owned_doc = format!("The gradient of the loss by each input that was wanted{of_tables}.");
    let borrowed_doc = format!("Where each gradient that is wanted goes{of_tables}.");
    let Params { bounded, names } = Params::of(decl, &used);
    let field = |tensor: &dyn Fn(TokenStream) -> TokenStream| -> Vec<TokenStream> {
        let one = |(param, kind): (&crate::decl::Param, InputKind)| {
            let element = match (kind, stored) {
                (InputKind::Table { .. }, Stored::F32) => quote!(f32),
                (InputKind::Table { .. } | InputKind::Rows(_) | InputKind::Index { .. }, _) => types::input(decl, kind),
            };
            let (name, ty) = (&param.name, tensor(element));
            let doc = format!("By `{name}`, if wanted: {}.", signature::input_shape(kernel, kind));
            quote! {
                #[doc = #doc]
                pub #name: ::std::option::Option<#ty>
            }
        };
        types::differentiable(decl).map(one).collect()
    };
    let owned = field(&|element| quote!(::rowloom::Tensor<#element>));
    let borrowed = field(&|element| quote!(::rowloom::ViewMut<'a, #element>));
    let results = types::differentiable(decl).enumerate().map(|(at, (param, _))| {
        let name = &param.name;
        quote!(#name: results.wanted(wants.0[#at])?)
    });
    let anys: Vec<TokenStream> = types::inputs(decl)
        .map(|(param, kind)| {
            let name = &param.name;
            match kind {
                InputKind::Rows(_) | InputKind::Table { .. } => {
                    quote!(gradients.#name.map(::rowloom::ViewMut::any))
                }
                InputKind::Index { .. } => quote!(::std::option::Option::None),
            }
        })
        .collect();
    let count = anys.len();
    quote! {
        #[doc = #owned_doc]
        #[derive(Debug)]
        pub struct #owned_name<#(#names),*> {
            #(#owned),*
        }

        #[doc = #borrowed_doc]
        #[derive(Debug)]
        pub struct #borrowed_name<'a, #(#names),*> {
            #(#borrowed),*
        }

        impl<#(#bounded),*> #owned_name<#(#names),*> {
            fn take(
                mut results: ::rowloom::__private::Results,
                wants: Wants,
            ) -> ::std::result::Result<Self, ::rowloom::Error> {
                ::std::result::Result::Ok(#owned_name { #(#results),* })
            }
        }

        impl<'a, #(#bounded),*> ::std::convert::From<#borrowed_name<'a, #(#names),*>>
            for [::std::option::Option<::rowloom::AnyViewMut<'a>>; #count]
        {
            /// One for each input, in declaration order.
            fn from(gradients: #borrowed_name<'a, #(#names),*>) -> Self {
                [#(#anys),*]
            }
        }
    }
}
