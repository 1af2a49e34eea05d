//! Borrowed tensors.

use std::fmt;
use std::ops::Range;

use rowloom_codegen::IntType;

use super::{Layout, View};
use crate::device::Device;
use crate::element::{Element, ElementType};
use crate::engine::{self, Region, Submission, Use};
use crate::error::Error;
use crate::stream::{Lane, Stream};

/// A borrowed (rows, columns) tensor of an element type known at run time, with
/// any row stride and offset.
#[derive(Clone, Copy)]
pub struct AnyView<'a> {
    pub(crate) bytes: Bytes<'a>,
    pub(crate) layout: Layout,
}

/// The whole memory that a view looks into.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'a> {
    Host(&'a [u8]),
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
    /// [`Error::Range`] beyond the memory; [`Error::BorrowedStrides`].
    pub fn strided(&self, rows: u64, columns: u64, strides: [u64; 2], offset: u64) -> Result<AnyView<'a>, Error> {
        let size = self.bytes.restridable()? / self.layout.ty.bytes();
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

    /// Its bytes where it lies whole in the host's memory.
    pub(crate) fn host_bytes(&self) -> Option<&'a [u8]> {
        match self.bytes {
            Bytes::Host(bytes) if self.layout.is_contiguous() => {
                let span = self.layout.span_bytes();
                bytes.get(span.start as usize..span.end as usize)
            }
            Bytes::Host(_) | Bytes::Device(_) => None,
        }
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

    /// Lets a submission use it, in order with what other streams have queued.
    pub(crate) fn join(&self, queue: &Submission<'_>, how: Use) -> Result<(), Error> {
        match self.bytes {
            Bytes::Host(_) => Ok(()),
            Bytes::Device(region) => region.join(queue, how),
        }
    }

    /// The same for content that is complete and never changes: no waiting.
    pub(crate) fn share(&self, queue: &Submission<'_>) {
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

impl Bytes<'_> {
    /// Bytes that another reading of the memory may reach: what lies between the rows of a
    /// framework's tensor may be another's.
    pub(super) fn restridable(&self) -> Result<u64, Error> {
        match self {
            Bytes::Host(bytes) => Ok(bytes.len() as u64),
            Bytes::Device(region) if region.is_borrowed() => Err(Error::BorrowedStrides),
            Bytes::Device(region) => Ok(region.bytes()),
        }
    }
}

impl fmt::Debug for AnyView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}", self.layout, self.device())
    }
}
