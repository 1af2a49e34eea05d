//! Tensors with their element type in front.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::{AnyTensor, AnyView, AnyViewMut};
use crate::device::Device;
use crate::element::Element;
use crate::error::Error;
use crate::stream::Stream;

/// An owned (rows, columns) tensor, contiguous.
pub struct Tensor<E> {
    any: AnyTensor,
    element: PhantomData<E>,
}

/// A borrowed (rows, columns) tensor with any row stride and offset.
pub struct View<'a, E> {
    any: AnyView<'a>,
    element: PhantomData<E>,
}

/// The same, to be written.
pub struct ViewMut<'a, E> {
    any: AnyViewMut<'a>,
    element: PhantomData<E>,
}

impl<E: Element> Tensor<E> {
    pub(super) fn new(any: AnyTensor) -> Result<Tensor<E>, Error> {
        any.view().expect_type("the tensor", E::TYPE)?;
        Ok(Tensor { any, element: PhantomData })
    }

    /// All bytes zero.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the device reports.
    pub fn zeros(stream: &Stream, rows: u64, columns: u64) -> Result<Tensor<E>, Error> {
        Tensor::new(AnyTensor::zeros(stream, E::TYPE, rows, columns)?)
    }

    /// Content unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the device reports.
    pub fn uninit(stream: &Stream, rows: u64, columns: u64) -> Result<Tensor<E>, Error> {
        Tensor::new(AnyTensor::uninit(stream, E::TYPE, rows, columns)?)
    }

    /// A copy of `elements`, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when they do not fill the shape; [`Error::OutOfMemory`].
    pub fn from_slice(stream: &Stream, elements: &[E], rows: u64, columns: u64) -> Result<Tensor<E>, Error> {
        Tensor::new(AnyTensor::from_slice(stream, elements, rows, columns)?)
    }

    /// Its elements, row after row. Waits for the stream.
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<E>, Error> {
        self.any.to_vec(stream)
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.any.device()
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.any.rows()
    }

    /// Columns.
    pub fn columns(&self) -> u64 {
        self.any.columns()
    }

    /// All of it.
    pub fn view(&self) -> View<'_, E> {
        View { any: self.any.view(), element: PhantomData }
    }

    /// All of it, to be written.
    pub fn view_mut(&mut self) -> ViewMut<'_, E> {
        ViewMut::of(self.any.view_mut())
    }

    /// The same without its element type.
    pub fn into_any(self) -> AnyTensor {
        self.any
    }
}

impl<'a, E: Element> View<'a, E> {
    pub(super) fn new(any: AnyView<'a>) -> Result<View<'a, E>, Error> {
        any.expect_type("the view", E::TYPE)?;
        Ok(View { any, element: PhantomData })
    }

    /// A slice of the program's own memory, on the CPU, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when it does not fill the shape.
    pub fn from_slice(elements: &'a [E], rows: u64, columns: u64) -> Result<View<'a, E>, Error> {
        View::new(AnyView::from_slice(elements, rows, columns)?)
    }

    /// Rows.
    pub fn row_count(&self) -> u64 {
        self.any.row_count()
    }

    /// Columns.
    pub fn column_count(&self) -> u64 {
        self.any.column_count()
    }

    /// Rows `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows.
    pub fn rows(&self, range: Range<u64>) -> Result<View<'a, E>, Error> {
        View::new(self.any.rows(range)?)
    }

    /// Columns `range` of it: a chunk of a table.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its columns.
    pub fn columns(&self, range: Range<u64>) -> Result<View<'a, E>, Error> {
        View::new(self.any.columns(range)?)
    }

    /// Its one row, `rows` times, without a copy.
    ///
    /// # Errors
    /// [`Error::Range`] when it has not exactly one row.
    pub fn expanded(&self, rows: u64) -> Result<View<'a, E>, Error> {
        View::new(self.any.expanded(rows)?)
    }

    /// Another reading of the memory beneath, as [`AnyView::strided`].
    ///
    /// # Errors
    /// [`Error::ColumnStride`] when columns do not follow one another;
    /// [`Error::Range`] beyond the memory.
    pub fn strided(&self, rows: u64, columns: u64, strides: [u64; 2], offset: u64) -> Result<View<'a, E>, Error> {
        View::new(self.any.strided(rows, columns, strides, offset)?)
    }

    /// Its elements, row after row. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; what the device reports.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<E>, Error> {
        self.any.to_vec(stream)
    }

    /// Address of the first element, as [`AnyView::address`].
    pub fn address(&self) -> u64 {
        self.any.address()
    }

    /// The same without its element type.
    pub fn any(self) -> AnyView<'a> {
        self.any
    }
}

impl<'a, E: Element> ViewMut<'a, E> {
    /// A slice of the program's own memory, on the CPU, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when it does not fill the shape.
    pub fn from_slice(elements: &'a mut [E], rows: u64, columns: u64) -> Result<ViewMut<'a, E>, Error> {
        Ok(ViewMut::of(AnyViewMut::from_slice(elements, rows, columns)?))
    }

    /// Rows `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows.
    pub fn rows(self, range: Range<u64>) -> Result<ViewMut<'a, E>, Error> {
        Ok(ViewMut::of(self.any.rows(range)?))
    }

    /// Its first `at` rows and the others, to be written apart: six outputs in one
    /// (6·S, H) tensor.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows; [`Error::Overlap`] when rows share memory.
    pub fn split_rows(self, at: u64) -> Result<(ViewMut<'a, E>, ViewMut<'a, E>), Error> {
        let (first, second) = self.any.split_rows(at)?;
        Ok((ViewMut::of(first), ViewMut::of(second)))
    }

    /// Columns `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its columns.
    pub fn columns(self, range: Range<u64>) -> Result<ViewMut<'a, E>, Error> {
        Ok(ViewMut::of(self.any.columns(range)?))
    }

    /// It, to be read.
    pub fn as_view(&self) -> View<'_, E> {
        View { any: self.any.as_view(), element: PhantomData }
    }

    /// Address of the first element, as [`AnyView::address`].
    pub fn address(&self) -> u64 {
        self.any.as_view().address()
    }

    pub(super) fn of(any: AnyViewMut<'a>) -> ViewMut<'a, E> {
        ViewMut { any, element: PhantomData }
    }

    /// The same without its element type.
    pub fn any(self) -> AnyViewMut<'a> {
        self.any
    }
}

impl<E> Clone for View<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for View<'_, E> {}

impl<'a, E> From<View<'a, E>> for AnyView<'a> {
    fn from(view: View<'a, E>) -> AnyView<'a> {
        view.any
    }
}

impl<'a, E> From<ViewMut<'a, E>> for AnyViewMut<'a> {
    fn from(view: ViewMut<'a, E>) -> AnyViewMut<'a> {
        view.any
    }
}

impl<E> fmt::Debug for Tensor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl<E> fmt::Debug for View<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}

impl<E> fmt::Debug for ViewMut<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.any.fmt(f)
    }
}
