//! Element types in generated code, and the type parameters a struct needs.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use rowloom_codegen::dtype::{DType, IntType};
use rowloom_codegen::ir::{FloatType, IndexType, InputKind};

use crate::decl::{Decl, Param, ReturnKind};
use crate::lower::Used;

/// The element type of a float tensor.
pub fn float(decl: &Decl, ty: FloatType) -> TokenStream {
    match ty {
        FloatType::Param(param) => decl.generics.floats[param.index()].to_token_stream(),
        FloatType::Fixed(DType::F32) => quote!(f32),
        FloatType::Fixed(DType::F16) => quote!(::rowloom::__private::half::f16),
        FloatType::Fixed(DType::Bf16) => quote!(::rowloom::__private::half::bf16),
    }
}

fn int(decl: &Decl, ty: IndexType) -> TokenStream {
    match ty {
        IndexType::Param(param) => decl.generics.ints[param.index()].to_token_stream(),
        IndexType::Fixed(IntType::U8) => quote!(u8),
        IndexType::Fixed(IntType::I32) => quote!(i32),
        IndexType::Fixed(IntType::I64) => quote!(i64),
    }
}

/// The element type of an input.
pub fn input(decl: &Decl, kind: InputKind) -> TokenStream {
    match kind {
        InputKind::Rows(ty) | InputKind::Table { ty, .. } => float(decl, ty),
        InputKind::Index { ty, .. } => int(decl, ty),
    }
}

/// `tensor` for one tensor, `[tensor; N]` for an array of outputs.
pub fn output(decl: &Decl, kind: ReturnKind, tensor: &dyn Fn(TokenStream) -> TokenStream) -> TokenStream {
    match kind {
        ReturnKind::Rows { ty, array: Some(length) } => {
            let (tensor, length) = (tensor(float(decl, ty)), length as usize);
            quote!([#tensor; #length])
        }
        ReturnKind::Rows { ty, array: None } | ReturnKind::Table { ty, .. } => tensor(float(decl, ty)),
    }
}

/// The inputs that have a gradient, with their kinds.
pub fn differentiable(decl: &Decl) -> impl Iterator<Item = (&Param, InputKind)> {
    inputs(decl).filter(|(_, kind)| !matches!(kind, InputKind::Index { .. }))
}

/// The inputs with their kinds.
pub fn inputs(decl: &Decl) -> impl Iterator<Item = (&Param, InputKind)> {
    decl.params.iter().filter_map(|param| Some((param, param.kind?)))
}

/// The outputs with their names.
pub fn outputs(decl: &Decl, kernel: &rowloom_codegen::Kernel) -> Vec<(Ident, ReturnKind)> {
    let names = kernel.outputs.iter().map(|output| Ident::new(&output.name, decl.name.span()));
    names.zip(&decl.returns).filter_map(|(name, output)| Some((name, output.kind?))).collect()
}

/// Type parameters of one generated item.
pub struct Params {
    /// With their bounds: `T: ::rowloom::Float`.
    pub bounded: Vec<TokenStream>,
    /// Without: `T`.
    pub names: Vec<Ident>,
}

impl Params {
    /// Those of a struct whose fields name `used`.
    pub fn of(decl: &Decl, used: &Used) -> Params {
        let mut params = Params { bounded: vec![], names: vec![] };
        params.add(&decl.generics.floats, &used.floats, &quote!(::rowloom::Float));
        params.add(&decl.generics.ints, &used.ints, &quote!(::rowloom::Int));
        params
    }

    fn add(&mut self, names: &[Ident], used: &[bool], bound: &TokenStream) {
        for (name, _) in names.iter().zip(used).filter(|(_, used)| **used) {
            self.bounded.push(quote!(#name: #bound));
            self.names.push(name.clone());
        }
    }
}
