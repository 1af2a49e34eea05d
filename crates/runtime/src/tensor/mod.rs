//! Tensors: matrices of one element type on one device, row-major. An index
//! over S positions is S rows of one column.
//!
//! [`AnyTensor`], [`AnyView`] and [`AnyViewMut`] know their element type at run
//! time; [`Tensor`], [`View`] and [`ViewMut`] are the same with the type in
//! front. A view has any row stride and offset; its columns follow one another.

mod erased;
mod layout;
mod raw;
mod typed;
mod view;
mod view_mut;

pub use erased::AnyTensor;
pub(crate) use layout::Layout;
pub use typed::{Tensor, View, ViewMut};
pub use view::AnyView;
pub(crate) use view::Bytes;
pub use view_mut::AnyViewMut;
pub(crate) use view_mut::BytesMut;
