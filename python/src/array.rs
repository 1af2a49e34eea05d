//! Arrays as their owners describe them: where they lie, and how.

pub(crate) mod exchange;
mod numpy;
pub(crate) mod torch;

use std::marker::PhantomData;
use std::ops::Range;

use exchange::Described;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rowloom::{ElementType, Error};

use crate::argument::{Argument, language_name};
use crate::error::Refused;
use crate::place::Place;

/// Most axes of an array: those of an output of several tensors.
pub(crate) const MOST_AXES: usize = 3;

/// An array that Python holds for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    /// Of the first element; null where there is none.
    address: u64,
    ty: ElementType,
    pub(crate) place: Place,
    writable: bool,
    axes: usize,
    /// The first of `axes`, as are strides, in elements.
    sizes: [u64; MOST_AXES],
    strides: [i64; MOST_AXES],
    object: &'a Bound<'a, PyAny>,
}

/// Rows of columns that follow one another, at an address that is a multiple of the element's size
/// and not null, in memory that Python holds for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) place: Place,
    pub(crate) ty: ElementType,
    pub(crate) writable: bool,
    pub(crate) address: u64,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Elements from one row to the next.
    pub(crate) row_stride: u64,
    held: PhantomData<&'a ()>,
}

impl<'a> Array<'a> {
    /// What an object says about itself.
    pub(crate) fn read(object: &'a Bound<'a, PyAny>, argument: Argument<'_>) -> Result<Array<'a>, Refused> {
        let array = Array::known(object, argument)?.ok_or_else(|| no_array(object, argument))?;
        // Before its shape is: an argument in the place of another has both wrong, and its type says so.
        if !argument.holds.includes(array.ty) {
            return Err(wrong_type(argument, &array.ty.to_string()));
        }
        Ok(array)
    }

    /// What it is. Only an object that is neither a tensor of a known class nor an array of NumPy's needs PyTorch
    /// searched for, which another thread may be importing.
    fn known(object: &'a Bound<'a, PyAny>, argument: Argument<'_>) -> Result<Option<Array<'a>>, Refused> {
        if !torch::is_plain(object)
            && let Some(array) = numpy::read(object, argument)?
        {
            return Ok(Some(array));
        }
        torch::read(object, argument)
    }

    /// As rows of columns: of one axis each element is a row, but where there are chunks of columns.
    pub(crate) fn matrix(self, argument: Argument<'_>) -> Result<Matrix<'a>, Refused> {
        let (sizes, strides) = (self.sizes, self.strides);
        match self.axes {
            1 if argument.chunks > 1 => Err(axes(argument, 1, format!("2: (rows, {}·H)", argument.chunks))),
            1 => self.of_rows(argument, (sizes[0], strides[0]), (1, 1), self.address),
            2 => self.of_rows(argument, (sizes[0], strides[0]), (sizes[1], strides[1]), self.address),
            found if argument.holds.index() => Err(axes(argument, found, "1".to_owned())),
            found => Err(axes(argument, found, "2: rows and columns".to_owned())),
        }
    }

    /// Matrix `at` of several behind one another.
    pub(crate) fn one_of(self, argument: Argument<'_>, at: usize, of: usize) -> Result<Matrix<'a>, Refused> {
        if of == 1 {
            return self.matrix(argument);
        }
        if self.axes != 3 {
            return Err(axes(argument, self.axes, "3: several tensors of rows and columns".to_owned()));
        }
        let ([tensors, rows, columns], [tensor_stride, row_stride, column_stride]) = (self.sizes, self.strides);
        if tensors != of as u64 {
            let (argument, because) = (argument.to_string(), "it is declared so".to_owned());
            return Err(Error::Size { argument, axis: "tensors", found: tensors, expected: of as u64, because }.into());
        }
        let step = not_negative(argument, "tensor", tensor_stride)?;
        let address = self.address + at as u64 * step * self.ty.bytes();
        self.of_rows(argument.element(at, of), (rows, row_stride), (columns, column_stride), address)
    }

    fn of_rows(
        self,
        argument: Argument<'_>,
        (rows, row_stride): (u64, i64),
        (columns, column_stride): (u64, i64),
        address: u64,
    ) -> Result<Matrix<'a>, Refused> {
        for (axis, size) in [(argument.first_axis, rows), ("columns", columns)] {
            if size == 0 {
                return Err(Error::Zero { argument: argument.to_string(), axis }.into());
            }
        }
        // The stride of one row or column leads nowhere.
        let row_stride = if rows == 1 { columns } else { not_negative(argument, "row", row_stride)? };
        let column_stride = if columns == 1 { 1 } else { not_negative(argument, "column", column_stride)? };
        if column_stride != 1 {
            return Err(Error::ColumnStride { argument: argument.to_string(), found: column_stride }.into());
        }
        if torch::is_negated(self.object, self.ty)? {
            return Err(Refused::Negated { argument: argument.to_string() });
        }
        if address == 0 {
            return Err(torch::no_memory(self.object, argument));
        }
        if !address.is_multiple_of(self.ty.bytes()) {
            return Err(Error::Misaligned { argument: argument.to_string(), address, of: self.ty.bytes() }.into());
        }
        let Array { ty, place, writable, .. } = self;
        Ok(Matrix { place, ty, writable, address, rows, columns, row_stride, held: PhantomData })
    }
}

impl<'a> Matrix<'a> {
    /// Rows that follow one another in memory that was made for them.
    pub(crate) fn dense(place: Place, ty: ElementType, address: u64, rows: u64, columns: u64) -> Matrix<'a> {
        Matrix { place, ty, writable: true, address, rows, columns, row_stride: columns, held: PhantomData }
    }

    /// Of a tensor that is known to be rows of columns.
    pub(crate) fn like(facts: &'a Described) -> Matrix<'a> {
        Matrix::of(*facts)
    }

    /// The same, of a tensor that somebody holds for `'a`.
    pub(crate) fn of(facts: Described) -> Matrix<'a> {
        let Described { address, ty, place, axes, sizes, strides } = facts;
        let [rows, second, _] = sizes.map(i64::unsigned_abs);
        let columns = if axes == 1 { 1 } else { second };
        let row_stride = if rows == 1 { columns } else { strides[0].unsigned_abs() };
        Matrix { place, ty, writable: true, address, rows, columns, row_stride, held: PhantomData }
    }
}

impl Matrix<'_> {
    /// Bytes from its first element to its last; up to 2^64 where a stride leads beyond memory.
    pub(crate) fn span(&self) -> Range<u64> {
        let elements = (self.rows - 1).saturating_mul(self.row_stride).saturating_add(self.columns);
        self.address..self.address.saturating_add(elements.saturating_mul(self.ty.bytes()))
    }
}

/// Sizes or strides of an array, of which there must not be too many.
fn axes_of(tuple: &Bound<'_, PyTuple>, argument: Argument<'_>) -> Result<([i64; MOST_AXES], usize), Refused> {
    let found = tuple.len();
    if found > MOST_AXES {
        return Err(axes(argument, found, "at most 3".to_owned()));
    }
    let mut values = [0; MOST_AXES];
    for (at, value) in values.iter_mut().enumerate().take(found) {
        *value = tuple.get_borrowed_item(at)?.extract()?;
    }
    Ok((values, found))
}

fn axes(argument: Argument<'_>, found: usize, expected: String) -> Refused {
    Refused::Axes { argument: argument.to_string(), found, expected }
}

fn not_negative(argument: Argument<'_>, axis: &'static str, stride: i64) -> Result<u64, Refused> {
    let negative = |_| Refused::NegativeStride { argument: argument.to_string(), axis, found: stride };
    u64::try_from(stride).map_err(negative)
}

fn wrong_type(argument: Argument<'_>, found: &str) -> Refused {
    let expected = argument.holds.to_string();
    Refused::ElementType { argument: argument.to_string(), found: language_name(found), expected }
}

fn no_array(object: &Bound<'_, PyAny>, argument: Argument<'_>) -> Refused {
    let found = object.get_type().qualname().map_or_else(|_| "unknown".to_owned(), |name| name.to_string());
    Refused::NoArray { argument: argument.to_string(), found }
}
