//! Borrowed tensors.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rowloom_codegen::IntType;

use super::{Layout, View};
use crate::device::{Device, Lane, Stream};
use crate::element::{Element, ElementType};
use crate::engine::{self, Queue, Region, Use};
use crate::error::Error;

/// A borrowed (rows, columns) tensor of an element type known at run time, with
/// any row stride and offset.
#[derive(Clone, Copy)]
pub struct AnyView<'a> {
    pub(crate) bytes: Bytes<'a>,
    pub(crate) layout: Layout,
}

/// The same, to be written.
pub struct AnyViewMut<'a> {
    pub(crate) bytes: BytesMut<'a>,
    pub(crate) layout: Layout,
}

/// The whole memory that a view looks into.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'a> {
    Host(&'a [u8]),
    Device(Region<'a>),
}

/// The same; of what it looks into, the elements of the view are its alone.
pub(crate) enum BytesMut<'a> {
    Host(&'a mut [u8]),
    Device(Region<'a>),
}

impl<'a> AnyView<'a> {
    /// A slice of the program's own memory, on the CPU, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when it does not fill the shape.
    pub fn from_slice<E: Element>(elements: &'a [E], rows: u64, columns: u64) -> Result<AnyView<'a>, Error> {
        if rows.checked_mul(columns) != Some(elements.len() as u64) {
            return Err(Error::Length { found: elements.len(), rows, columns });
        }
        Ok(AnyView {
            bytes: Bytes::Host(bytemuck::cast_slice(elements)),
            layout: Layout::contiguous(E::TYPE, rows, columns),
        })
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.bytes.device()
    }

    /// What it holds.
    pub fn element_type(&self) -> ElementType {
        self.layout.ty
    }

    /// Rows.
    pub fn row_count(&self) -> u64 {
        self.layout.rows
    }

    /// Columns.
    pub fn column_count(&self) -> u64 {
        self.layout.columns
    }

    /// Elements from one row to the next.
    pub fn row_stride(&self) -> u64 {
        self.layout.row_stride
    }

    /// Rows `range` of it.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its rows.
    pub fn rows(&self, range: Range<u64>) -> Result<AnyView<'a>, Error> {
        Ok(AnyView { layout: self.layout.of_rows(range)?, ..*self })
    }

    /// Columns `range` of it: a chunk of a table.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its columns.
    pub fn columns(&self, range: Range<u64>) -> Result<AnyView<'a>, Error> {
        Ok(AnyView { layout: self.layout.of_columns(range)?, ..*self })
    }

    /// Its one row, `rows` times, without a copy.
    ///
    /// # Errors
    /// [`Error::Range`] when it has not exactly one row.
    pub fn expanded(&self, rows: u64) -> Result<AnyView<'a>, Error> {
        Ok(AnyView { layout: self.layout.expanded(rows)?, ..*self })
    }

    /// Another reading of the memory beneath: `rows` × `columns` elements from
    /// element `offset` of that memory on, `strides` elements from row to row
    /// and from column to column.
    ///
    /// # Errors
    /// [`Error::ColumnStride`] when columns do not follow one another;
    /// [`Error::Range`] beyond the memory.
    pub fn strided(&self, rows: u64, columns: u64, strides: [u64; 2], offset: u64) -> Result<AnyView<'a>, Error> {
        let size = self.bytes.len() / self.layout.ty.bytes();
        Ok(AnyView { layout: self.layout.strided(rows, columns, strides, offset, size)?, ..*self })
    }

    /// Its elements, row after row. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type; [`Error::WrongDevice`];
    /// what the device reports.
    pub fn to_vec<E: Element>(&self, stream: &Stream) -> Result<Vec<E>, Error> {
        self.expect_type("the view", E::TYPE)?;
        let count = self.layout.elements();
        let out_of_memory = |()| Error::OutOfMemory { device: "the host".to_owned(), bytes: count * E::TYPE.bytes() };
        let mut elements: Vec<E> = bytemuck::allocation::try_zeroed_vec(count as usize).map_err(out_of_memory)?;
        self.download(stream, bytemuck::cast_slice_mut(&mut elements))?;
        Ok(elements)
    }

    fn download(&self, stream: &Stream, to: &mut [u8]) -> Result<(), Error> {
        if to.is_empty() {
            return Ok(());
        }
        match (self.bytes, &stream.0) {
            (Bytes::Host(bytes), _) => {
                let row_bytes = (self.layout.columns * self.layout.ty.bytes()) as usize;
                for (row, to) in to.chunks_exact_mut(row_bytes).enumerate() {
                    to.copy_from_slice(&bytes[self.layout.row_bytes(row as u64)]);
                }
                Ok(())
            }
            (Bytes::Device(memory), Lane::Accelerator(queue)) if engine::same(memory.engine(), &queue.engine) => {
                let span = self.layout.span_bytes();
                if self.layout.is_contiguous() {
                    return memory.download(queue, span.start, to);
                }
                let mut whole = vec![0; (span.end - span.start) as usize];
                memory.download(queue, span.start, &mut whole)?;
                let packed = Layout { offset: 0, ..self.layout };
                AnyView { bytes: Bytes::Host(&whole), layout: packed }.download(stream, to)
            }
            (Bytes::Device(_), _) => Err(self.wrong_device("the view", stream)),
        }
    }

    /// The number at one position of an index. Waits for the stream.
    pub(crate) fn integer(&self, stream: &Stream, position: u64) -> Result<i64, Error> {
        let one = self.rows(position..position + 1)?;
        Ok(match self.layout.ty {
            ElementType::Int(IntType::U8) => one.to_vec::<u8>(stream)?[0].into(),
            ElementType::Int(IntType::I32) => one.to_vec::<i32>(stream)?[0].into(),
            ElementType::Int(IntType::I64) => one.to_vec::<i64>(stream)?[0],
            ElementType::U32 | ElementType::Float(_) => unreachable!("an index holds integers"),
        })
    }

    /// Address of the first element in its device's memory, for another framework. It
    /// is valid as long as what the view borrows; the caller puts the framework's
    /// work in order with that of the streams here.
    pub fn address(&self) -> u64 {
        let offset = self.layout.span_bytes().start;
        match self.bytes {
            Bytes::Host(bytes) => bytes.as_ptr() as u64 + offset,
            Bytes::Device(memory) => memory.address() + offset,
        }
    }

    /// Whether it is on the stream's device.
    pub(crate) fn is_on(&self, stream: &Stream) -> bool {
        match (&self.bytes, &stream.0) {
            (Bytes::Host(_), Lane::Cpu(_)) => true,
            (Bytes::Device(region), Lane::Accelerator(queue)) => engine::same(region.engine(), &queue.engine),
            (Bytes::Host(_), Lane::Accelerator(_)) | (Bytes::Device(_), Lane::Cpu(_)) => false,
        }
    }

    /// Lets later work of `queue` use it, in order with what other streams have queued.
    pub(crate) fn join(&self, queue: &Arc<Queue>, how: Use) -> Result<(), Error> {
        match self.bytes {
            Bytes::Host(_) => Ok(()),
            Bytes::Device(region) => region.join(queue, how),
        }
    }

    /// The same for content that is complete and never changes: no waiting.
    pub(crate) fn share(&self, queue: &Arc<Queue>) {
        match self.bytes {
            Bytes::Host(_) => {}
            Bytes::Device(memory) => memory.share(queue),
        }
    }

    /// The same with its element type in front.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn typed<E: Element>(self) -> Result<View<'a, E>, Error> {
        View::new(self)
    }

    pub(crate) fn expect_type(&self, argument: &str, expected: ElementType) -> Result<(), Error> {
        if self.layout.ty == expected {
            return Ok(());
        }
        let argument = argument.to_owned();
        Err(Error::ElementType { argument, expected: expected.to_string(), found: self.layout.ty })
    }

    pub(crate) fn wrong_device(&self, argument: &str, stream: &Stream) -> Error {
        let (expected, found) = (stream.device().name(), self.device().name());
        Error::WrongDevice { argument: argument.to_owned(), expected, found }
    }
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
        Ok(match self.bytes {
            BytesMut::Device(region) => {
                let half = |layout| AnyViewMut { bytes: BytesMut::Device(region), layout };
                (half(first), half(second))
            }
            BytesMut::Host(bytes) => {
                // Without rows it begins nowhere.
                let end = bytes.len() as u64;
                let start = if second.rows == 0 { end } else { second.offset * layout.ty.bytes() };
                let (front, behind) = bytes.split_at_mut(start as usize);
                second.offset = 0;
                (
                    AnyViewMut { bytes: BytesMut::Host(front), layout: first },
                    AnyViewMut { bytes: BytesMut::Host(behind), layout: second },
                )
            }
        })
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
    /// [`Error::Range`] beyond the memory.
    pub fn strided(self, rows: u64, columns: u64, strides: [u64; 2], offset: u64) -> Result<AnyViewMut<'a>, Error> {
        let size = self.as_view().bytes.len() / self.layout.ty.bytes();
        Ok(AnyViewMut { layout: self.layout.strided(rows, columns, strides, offset, size)?, ..self })
    }

    /// Sets every byte of its elements: a NaN pattern (0xFF) that a kernel must overwrite.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; what the device reports.
    pub fn fill(&mut self, stream: &Stream, byte: u8) -> Result<(), Error> {
        let layout = self.layout;
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

impl Bytes<'_> {
    fn len(&self) -> u64 {
        match self {
            Bytes::Host(bytes) => bytes.len() as u64,
            Bytes::Device(memory) => memory.bytes(),
        }
    }
}

impl fmt::Debug for AnyView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}", self.layout, self.device())
    }
}

impl fmt::Debug for AnyViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_view().fmt(f)
    }
}
