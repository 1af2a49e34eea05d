//! The `#[kernel]` macro.
//!
//! ```text
//! tokens -> Decl -> checks -> ir::Kernel -> Verified, its backward -> module
//! ```
//!
//! Every error is at the user's token, all of them at once. The generated
//! module holds the declaration as IR text and typed calls into the runtime;
//! it names nothing but `::rowloom`.

mod check;
mod decl;
mod emit;
mod errors;
mod expand;
mod lower;
mod parse;
mod symbol;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Declares a row kernel: see the crate `rowloom`, whose documentation holds the
/// language. The function becomes a module of the same name with `Inputs`,
/// `Outputs`, `forward`, `backward` and `declaration`.
///
/// `order(block = 256, accumulate = f32)` fixes the order of sums over positions;
/// `tile(forward(threads = [96, 128]), backward(kind = [blocks]))` narrows the
/// schedules of a direction.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
