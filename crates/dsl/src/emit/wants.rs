//! `Wants`: which gradients.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use rowloom_codegen::ir::InputKind;

use super::types;
use crate::decl::Decl;

/// The type, with a constant per differentiable input.
pub fn wants(decl: &Decl) -> TokenStream {
    let inputs: Vec<&Ident> = types::differentiable(decl).map(|(param, _)| &param.name).collect();
    let count = inputs.len();
    let constants = inputs.iter().enumerate().map(|(at, name)| {
        let constant = Ident::new(&name.to_string().to_uppercase(), name.span());
        let doc = format!("The gradient by `{name}`.");
        let bits = (0..count).map(|other| other == at);
        quote! {
            #[doc = #doc]
            pub const #constant: Wants = Wants([#(#bits),*]);
        }
    });
    let inputs_count = types::inputs(decl).count();
    let mut place = 0..count;
    let by_input = types::inputs(decl).map(|(_, kind)| match kind {
        InputKind::Rows(_) | InputKind::Table { .. } => {
            let at = place.next();
            quote!(self.0[#at])
        }
        InputKind::Index { .. } => quote!(false),
    });
    quote! {
        /// The gradients that are wanted; several are joined by `|`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Wants([bool; #count]);

        impl Wants {
            #(#constants)*

            /// All of them.
            pub const fn all() -> Wants {
                Wants([true; #count])
            }

            fn by_input(self) -> [bool; #inputs_count] {
                [#(#by_input),*]
            }
        }

        impl ::std::ops::BitOr for Wants {
            type Output = Wants;

            fn bitor(self, other: Wants) -> Wants {
                Wants(::std::array::from_fn(|at| self.0[at] || other.0[at]))
            }
        }
    }
}
