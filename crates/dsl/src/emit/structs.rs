//! `Inputs`, `Outputs`, `OutputsMut`, `Cotangents`, `Gradients`, `GradientsMut`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use rowloom_codegen::Kernel;
use rowloom_codegen::ir::InputKind;

use super::signature;
use super::types::{self, Params};
use crate::decl::{Decl, ReturnKind};
use crate::lower::{gradient_generics, input_generics, output_generics};

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
    let values = decl.params.iter().map(|param| &param.name);
    quote! {
        /// What the kernel reads.
        #[derive(Clone, Copy, Debug)]
        pub struct Inputs<'a, #(#names),*> {
            #(#fields),*
        }

        impl<'a, #(#bounded),*> Inputs<'a, #(#names),*> {
            fn any(&self) -> ::std::vec::Vec<::std::vec::Vec<::rowloom::AnyView<'a>>> {
                ::std::vec![#(::std::vec![self.#values.any()]),*]
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

fn is_array(kind: ReturnKind) -> bool {
    matches!(kind, ReturnKind::Rows { array: Some(_), .. })
}

fn outputs(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &output_generics(decl));
    let owned = output_fields(decl, kernel, &|element| quote!(::rowloom::Tensor<#element>));
    let borrowed = output_fields(decl, kernel, &|element| quote!(::rowloom::ViewMut<'a, #element>));
    let outputs = types::outputs(decl, kernel);
    let views = outputs.iter().map(|(name, kind)| {
        if is_array(*kind) {
            quote!(#name: self.#name.each_mut().map(::rowloom::Tensor::view_mut))
        } else {
            quote!(#name: self.#name.view_mut())
        }
    });
    let anys = outputs.iter().map(|(name, kind)| {
        if is_array(*kind) {
            quote!(self.#name.into_iter().map(::rowloom::ViewMut::any).collect())
        } else {
            quote!(::std::vec![self.#name.any()])
        }
    });
    let results = outputs.iter().map(|(name, kind)| {
        if is_array(*kind) { quote!(#name: results.array()?) } else { quote!(#name: results.one()?) }
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
            fn any(self) -> ::std::vec::Vec<::std::vec::Vec<::rowloom::AnyViewMut<'a>>> {
                ::std::vec![#(#anys),*]
            }
        }
    }
}

fn cotangents(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &output_generics(decl));
    let fields = output_fields(decl, kernel, &|element| quote!(::rowloom::View<'a, #element>));
    let outputs = types::outputs(decl, kernel);
    let anys = outputs.iter().map(|(name, kind)| {
        if is_array(*kind) {
            quote!(self.#name.iter().map(|view| view.any()).collect())
        } else {
            quote!(::std::vec![self.#name.any()])
        }
    });
    quote! {
        /// The gradient of the loss by each output.
        #[derive(Clone, Copy, Debug)]
        pub struct Cotangents<'a, #(#names),*> {
            #(#fields),*
        }

        impl<'a, #(#bounded),*> Cotangents<'a, #(#names),*> {
            fn any(&self) -> ::std::vec::Vec<::std::vec::Vec<::rowloom::AnyView<'a>>> {
                ::std::vec![#(#anys),*]
            }
        }
    }
}

fn gradients(decl: &Decl, kernel: &Kernel) -> TokenStream {
    let Params { bounded, names } = Params::of(decl, &gradient_generics(decl));
    let field = |tensor: &dyn Fn(TokenStream) -> TokenStream| -> Vec<TokenStream> {
        let one = |(param, kind): (&crate::decl::Param, InputKind)| {
            let (name, ty) = (&param.name, tensor(types::input(decl, kind)));
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
    let anys = types::inputs(decl).map(|(param, kind)| {
        let name = &param.name;
        match kind {
            InputKind::Rows(_) | InputKind::Table { .. } => {
                quote!(self.#name.map(::rowloom::ViewMut::any))
            }
            InputKind::Index { .. } => quote!(::std::option::Option::None),
        }
    });
    quote! {
        /// The gradient of the loss by each input that was wanted.
        #[derive(Debug)]
        pub struct Gradients<#(#names),*> {
            #(#owned),*
        }

        /// Where each gradient that is wanted goes.
        #[derive(Debug)]
        pub struct GradientsMut<'a, #(#names),*> {
            #(#borrowed),*
        }

        impl<#(#bounded),*> Gradients<#(#names),*> {
            fn take(
                mut results: ::rowloom::__private::Results,
                wants: Wants,
            ) -> ::std::result::Result<Self, ::rowloom::Error> {
                ::std::result::Result::Ok(Gradients { #(#results),* })
            }
        }

        impl<'a, #(#bounded),*> GradientsMut<'a, #(#names),*> {
            fn any(self) -> ::std::vec::Vec<::std::option::Option<::rowloom::AnyViewMut<'a>>> {
                ::std::vec![#(#anys),*]
            }
        }
    }
}
