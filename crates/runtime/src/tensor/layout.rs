//! Where the elements of a view lie.

use std::ops::Range;

use crate::element::ElementType;
use crate::error::Error;

/// Rows of columns that follow one another; all numbers in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ty: ElementType,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// From one row to the next; 0 repeats one row.
    pub(crate) row_stride: u64,
    /// Of the first element.
    pub(crate) offset: u64,
}

impl Layout {
    pub(crate) fn contiguous(ty: ElementType, rows: u64, columns: u64) -> Layout {
        Layout { ty, rows, columns, row_stride: columns, offset: 0 }
    }

    /// Rows `range` of it.
    pub(crate) fn of_rows(self, range: Range<u64>) -> Result<Layout, Error> {
        inside("rows", &range, self.rows)?;
        // Where no element is left a stride may be any number, and leads nowhere.
        let none = self.columns == 0 || range.is_empty();
        let offset = if none { self.offset } else { self.offset + range.start * self.row_stride };
        Ok(Layout { rows: range.end - range.start, offset, ..self })
    }

    /// Columns `range` of it.
    pub(crate) fn of_columns(self, range: Range<u64>) -> Result<Layout, Error> {
        inside("columns", &range, self.columns)?;
        Ok(Layout { columns: range.end - range.start, offset: self.offset + range.start, ..self })
    }

    /// Its one row, repeated.
    pub(crate) fn expanded(self, rows: u64) -> Result<Layout, Error> {
        inside("rows", &(0..1), self.rows.min(1))?;
        if self.rows != 1 {
            return Err(Error::Range { what: "rows", start: 0, end: self.rows, size: 1 });
        }
        Layout { rows, row_stride: 0, ..self }.countable()
    }

    /// Another reading of the same elements, of which there are `size`.
    pub(crate) fn strided(
        self,
        rows: u64,
        columns: u64,
        strides: [u64; 2],
        offset: u64,
        size: u64,
    ) -> Result<Layout, Error> {
        let [row_stride, column_stride] = strides;
        if columns > 1 && column_stride != 1 {
            return Err(Error::ColumnStride { argument: "the view".to_owned(), found: column_stride });
        }
        let layout = Layout { rows, columns, row_stride, offset, ..self };
        match layout.end() {
            Some(end) if end <= size => layout.countable(),
            end => Err(Error::Range { what: "elements", start: offset, end: end.unwrap_or(u64::MAX), size }),
        }
    }

    /// Itself, if the bytes of a copy of it can be counted.
    fn countable(self) -> Result<Layout, Error> {
        let bytes = self.rows.checked_mul(self.columns).and_then(|elements| elements.checked_mul(self.ty.bytes()));
        let limit = isize::MAX as u64;
        if bytes.is_some_and(|bytes| bytes <= limit) {
            return Ok(self);
        }
        Err(Error::Range { what: "bytes", start: 0, end: bytes.unwrap_or(u64::MAX), size: limit })
    }

    /// One past its last element; `None` beyond 64 bits.
    pub(crate) fn end(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(self.offset);
        }
        (self.rows - 1).checked_mul(self.row_stride)?.checked_add(self.offset)?.checked_add(self.columns)
    }

    /// Elements in it.
    pub(crate) fn elements(&self) -> u64 {
        self.rows * self.columns
    }

    /// Whether no element lies between its rows.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.rows <= 1 || self.row_stride == self.columns
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0
    }

    /// Bytes of a row that has any, and where it begins.
    pub(crate) fn row_bytes(&self, row: u64) -> Range<usize> {
        let start = (self.offset + row * self.row_stride) * self.ty.bytes();
        start as usize..(start + self.columns * self.ty.bytes()) as usize
    }

    /// Bytes from its first element to its last.
    pub(crate) fn span_bytes(&self) -> Range<u64> {
        let size = self.ty.bytes();
        self.offset * size..self.end().map_or(0, |end| end * size)
    }
}

fn inside(what: &'static str, range: &Range<u64>, size: u64) -> Result<(), Error> {
    if range.start <= range.end && range.end <= size {
        return Ok(());
    }
    Err(Error::Range { what, start: range.start, end: range.end, size })
}
