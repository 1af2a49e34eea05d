//! Borrowed tensors to be written.

use std::fmt;
use std::ops::Range;

use super::Layout;
use super::view::{AnyView, Bytes};
use crate::element::Element;
use crate::engine::{self, Region};
use crate::error::Error;
use crate::stream::{Lane, Stream};

/// An [`AnyView`] to be written.
pub struct AnyViewMut<'a> {
    pub(crate) bytes: BytesMut<'a>,
    pub(crate) layout: Layout,
}

/// The whole memory that a view to be written looks into: of it, the elements of the view are its alone.
pub(crate) enum BytesMut<'a> {
    Host(&'a mut [u8]),
    Device(Region<'a>),
}

impl<'a> AnyViewMut<'a> {
    /// A slice of the program's own memory, on the CPU, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when it does not fill the shape.
    pub fn from_slice<E: Element>(elements: &'a mut [E], rows: u64, columns: u64) -> Result<AnyViewMut<'a>, Error> {
        if rows.checked_mul(columns) != Some(elements.len() as u64) {
            return Err(Error::Length { found: elements.len(), rows, columns });
        }
        Ok(AnyViewMut {
            bytes: BytesMut::Host(bytemuck::cast_slice_mut(elements)),
            layout: Layout::contiguous(E::TYPE, rows, columns),
        })
    }

    /// The same for a shorter time.
    pub(crate) fn reborrow(&mut self) -> AnyViewMut<'_> {
        let bytes = match &mut self.bytes {
            BytesMut::Host(bytes) => BytesMut::Host(bytes),
            BytesMut::Device(region) => BytesMut::Device(*region),
        };
        AnyViewMut { bytes, layout: self.layout }
    }

    /// It, to be read.
    pub fn as_view(&self) -> AnyView<'_> {
        let bytes = match &self.bytes {
            BytesMut::Host(bytes) => Bytes::Host(bytes),
            BytesMut::Device(region) => Bytes::Device(*region),
        };
        AnyView { bytes, layout: self.layout }
    }

    /// Rows `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows.
    pub fn rows(self, range: Range<u64>) -> Result<AnyViewMut<'a>, Error> {
        Ok(AnyViewMut { layout: self.layout.of_rows(range)?, ..self })
    }

    /// Its first `at` rows and the others, to be written apart.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows; [`Error::Overlap`] when rows share memory.
    pub fn split_rows(self, at: u64) -> Result<(AnyViewMut<'a>, AnyViewMut<'a>), Error> {
        let layout = self.layout;
        let (first, mut second) = (layout.of_rows(0..at)?, layout.of_rows(at..layout.rows)?);
        if layout.rows > 1 && layout.row_stride < layout.columns {
            let (columns, row_stride) = (layout.columns, layout.row_stride);
            return Err(Error::Overlap { argument: "the view".to_owned(), columns, row_stride });
        }
        // Each half looks into memory of its own; without rows it begins nowhere.
        let start = |end: u64| if second.rows == 0 { end } else { second.offset * layout.ty.bytes() };
        let (front, behind) = match self.bytes {
            BytesMut::Device(region) => {
                let (front, behind) = region.split_at(start(region.bytes()));
                (BytesMut::Device(front), BytesMut::Device(behind))
            }
            BytesMut::Host(bytes) => {
                let start = start(bytes.len() as u64) as usize;
                let (front, behind) = bytes.split_at_mut(start);
                (BytesMut::Host(front), BytesMut::Host(behind))
            }
        };
        second.offset = 0;
        Ok((AnyViewMut { bytes: front, layout: first }, AnyViewMut { bytes: behind, layout: second }))
    }

    /// Columns `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its columns.
    pub fn columns(self, range: Range<u64>) -> Result<AnyViewMut<'a>, Error> {
        Ok(AnyViewMut { layout: self.layout.of_columns(range)?, ..self })
    }

    /// Another reading of the memory beneath, as [`AnyView::strided`].
    ///
    /// # Errors
    /// [`Error::ColumnStride`] when columns do not follow one another;
    /// [`Error::Range`] beyond the memory; [`Error::BorrowedStrides`].
    pub fn strided(self, rows: u64, columns: u64, strides: [u64; 2], offset: u64) -> Result<AnyViewMut<'a>, Error> {
        let size = self.as_view().bytes.restridable()? / self.layout.ty.bytes();
        Ok(AnyViewMut { layout: self.layout.strided(rows, columns, strides, offset, size)?, ..self })
    }

    /// Sets every byte of its elements: a NaN pattern (0xFF) that a kernel must overwrite.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; what the device reports.
    pub fn fill(&mut self, stream: &Stream, byte: u8) -> Result<(), Error> {
        let layout = self.layout;
        if layout.is_empty() {
            return Ok(());
        }
        match (&mut self.bytes, &stream.0) {
            (BytesMut::Host(bytes), _) => {
                for row in 0..layout.rows {
                    bytes[layout.row_bytes(row)].fill(byte);
                }
                Ok(())
            }
            (BytesMut::Device(memory), Lane::Accelerator(queue)) if engine::same(memory.engine(), &queue.engine) => {
                if layout.is_contiguous() {
                    let span = layout.span_bytes();
                    return memory.fill(queue, span.start, byte, span.end - span.start);
                }
                for row in 0..layout.rows {
                    let bytes = layout.row_bytes(row);
                    memory.fill(queue, bytes.start as u64, byte, bytes.len() as u64)?;
                }
                Ok(())
            }
            (BytesMut::Device(_), _) => Err(self.as_view().wrong_device("the view", stream)),
        }
    }

    /// Copies the elements of `source`, bit by bit. Both are on the stream's device.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::Size`] and [`Error::WrongDevice`] when the
    /// two do not match; what the device reports.
    pub fn copy_from(&mut self, stream: &Stream, source: AnyView<'_>) -> Result<(), Error> {
        let layout = self.layout;
        source.expect_type("the source", layout.ty)?;
        for (axis, found, expected) in
            [("rows", source.layout.rows, layout.rows), ("columns", source.layout.columns, layout.columns)]
        {
            if found != expected {
                let because = "the target has".to_owned();
                return Err(Error::Size { argument: "the source".to_owned(), axis, found, expected, because });
            }
        }
        if layout.is_empty() {
            return Ok(());
        }
        match (&mut self.bytes, source.bytes, &stream.0) {
            (BytesMut::Host(to), Bytes::Host(from), _) => {
                for row in 0..layout.rows {
                    to[layout.row_bytes(row)].copy_from_slice(&from[source.layout.row_bytes(row)]);
                }
                Ok(())
            }
            (BytesMut::Device(to), Bytes::Device(from), Lane::Accelerator(queue))
                if engine::same(to.engine(), &queue.engine) && engine::same(from.engine(), &queue.engine) =>
            {
                if layout.is_contiguous() && source.layout.is_contiguous() {
                    let (span, source) = (layout.span_bytes(), source.layout.span_bytes());
                    return to.copy_from(queue, span.start, &from, source.start, span.end - span.start);
                }
                for row in 0..layout.rows {
                    let (bytes, source) = (layout.row_bytes(row), source.layout.row_bytes(row));
                    to.copy_from(queue, bytes.start as u64, &from, source.start as u64, bytes.len() as u64)?;
                }
                Ok(())
            }
            (_, Bytes::Host(_), _) | (_, Bytes::Device(_), _) => Err(source.wrong_device("the source", stream)),
        }
    }

    /// Writes `from`, row after row.
    pub(crate) fn upload(&mut self, stream: &Stream, from: &[u8]) -> Result<(), Error> {
        if from.is_empty() {
            return Ok(());
        }
        let layout = self.layout;
        match (&mut self.bytes, &stream.0) {
            (BytesMut::Host(bytes), _) => {
                let row_bytes = (layout.columns * layout.ty.bytes()) as usize;
                for (row, from) in from.chunks_exact(row_bytes).enumerate() {
                    bytes[layout.row_bytes(row as u64)].copy_from_slice(from);
                }
                Ok(())
            }
            (BytesMut::Device(memory), Lane::Accelerator(queue))
                if layout.is_contiguous() && engine::same(memory.engine(), &queue.engine) =>
            {
                memory.upload(queue, layout.span_bytes().start, from)
            }
            (BytesMut::Device(_), _) => Err(self.as_view().wrong_device("the view", stream)),
        }
    }
}

impl fmt::Debug for AnyViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_view().fmt(f)
    }
}
