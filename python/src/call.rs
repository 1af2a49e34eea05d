//! The arrays of a call: read from Python, checked, and lent to rowloom.

use pyo3::prelude::*;
use rowloom::codegen::Kernel;
use rowloom::{AnyView, AnyViewMut, Device, Error};
use smallvec::SmallVec;

use crate::argument::Argument;
use crate::array::{Array, Matrix};
use crate::borrowed;
use crate::error::Refused;
use crate::items::Items;
use crate::place::Place;

/// An array and what errors call it.
pub(crate) type Named<'a, 'k> = (Argument<'k>, Matrix<'a>);

/// Arrays on the stack, for kernels of a usual size.
pub(crate) type Matrices<'a, 'k> = SmallVec<[Named<'a, 'k>; 8]>;

/// The same where some are not there.
pub(crate) type Optional<'a, 'k> = SmallVec<[Option<Named<'a, 'k>>; 8]>;

type Views<V> = SmallVec<[V; 8]>;

/// Reads the arrays of a call, which are all on one device: that of the first.
pub(crate) struct Reader<'k> {
    kernel: &'k Kernel,
    first: Option<(Place, Argument<'k>)>,
}

impl<'k> Reader<'k> {
    pub(crate) fn new(kernel: &'k Kernel) -> Reader<'k> {
        Reader { kernel, first: None }
    }

    /// Where the arrays read so far are.
    pub(crate) fn place(&self) -> Result<Place, Error> {
        let (place, _) = self.first.ok_or_else(|| self.arguments("arrays", 1, 0))?;
        Ok(place)
    }

    /// Every input.
    pub(crate) fn inputs<'a>(&mut self, items: &'a Items<'_>) -> Result<Matrices<'a, 'k>, Refused> {
        self.expect("inputs", self.kernel.inputs.len(), items)?;
        let mut matrices = Matrices::new();
        for (at, item) in items.0.iter().enumerate() {
            matrices.push(self.read(item, Argument::input(self.kernel, at))?);
        }
        Ok(matrices)
    }

    /// The inputs that are there.
    pub(crate) fn some_inputs<'a>(&mut self, items: &'a Items<'_>) -> Result<Optional<'a, 'k>, Refused> {
        self.expect("inputs", self.kernel.inputs.len(), items)?;
        let one = |(at, item): (usize, &'a Bound<'_, PyAny>)| {
            let input = Argument::input(self.kernel, at);
            (!item.is_none()).then(|| self.read(item, input)).transpose()
        };
        items.0.iter().enumerate().map(one).collect()
    }

    /// The gradients that are wanted, each in the place of its input.
    pub(crate) fn gradients<'a>(&mut self, items: &'a Items<'_>) -> Result<Optional<'a, 'k>, Refused> {
        self.expect("gradients", self.kernel.inputs.len(), items)?;
        let one = |(at, item): (usize, &'a Bound<'_, PyAny>)| {
            let gradient = Argument::input(self.kernel, at).derivative();
            (!item.is_none()).then(|| writable(self.read(item, gradient)?)).transpose()
        };
        items.0.iter().enumerate().map(one).collect()
    }

    /// Every output: one array for each, or one for each of its tensors.
    pub(crate) fn outputs<'a>(&mut self, items: &'a Items<'_>) -> Result<Matrices<'a, 'k>, Refused> {
        let mut matrices = Matrices::new();
        if items.0.len() == self.output_tensors().count() {
            for (output, item) in self.output_tensors().zip(&items.0) {
                matrices.push(writable(self.read(item, output)?)?);
            }
            return Ok(matrices);
        }
        self.expect("outputs", self.kernel.outputs.len(), items)?;
        for (at, item) in items.0.iter().enumerate() {
            let (output, tensors) = (Argument::output(self.kernel, at), self.kernel.outputs[at].tensors());
            let array = Array::read(item, output)?;
            for element in 0..tensors {
                let matrix = array.one_of(output, element, tensors)?;
                matrices.push(writable(self.here(matrix, output.element(element, tensors))?)?);
            }
        }
        Ok(matrices)
    }

    /// The cotangents: one array for each tensor of each output.
    pub(crate) fn cotangents<'a>(&mut self, items: &'a Items<'_>) -> Result<Matrices<'a, 'k>, Refused> {
        self.expect("cotangents", self.output_tensors().count(), items)?;
        let mut matrices = Matrices::new();
        for (output, item) in self.output_tensors().zip(&items.0) {
            matrices.push(self.read(item, output.derivative())?);
        }
        Ok(matrices)
    }

    /// The indices of a row expression.
    pub(crate) fn indices<'a>(&mut self, expression: usize, items: &'a Items<'_>) -> Result<Matrices<'a, 'k>, Refused> {
        let kernel = self.kernel;
        let terms = kernel.rows.get(expression).map_or(&[][..], |row| &row.terms);
        self.expect("indices in this expression", terms.len(), items)?;
        let named = |&(input, _): &(rowloom::codegen::ir::InputId, u64)| Argument::input(kernel, input.index());
        terms.iter().map(named).zip(&items.0).map(|(index, item)| self.read(item, index)).collect()
    }

    /// One array.
    pub(crate) fn read<'a>(
        &mut self,
        item: &'a Bound<'_, PyAny>,
        argument: Argument<'k>,
    ) -> Result<Named<'a, 'k>, Refused> {
        self.here(Array::read(item, argument)?.matrix(argument)?, argument)
    }

    fn here<'a>(&mut self, matrix: Matrix<'a>, argument: Argument<'k>) -> Result<Named<'a, 'k>, Refused> {
        let (place, first) = *self.first.get_or_insert((matrix.place, argument));
        if matrix.place == place {
            return Ok((argument, matrix));
        }
        Err(Refused::OtherDevice {
            argument: argument.to_string(),
            found: matrix.place.to_string(),
            expected: place.to_string(),
            because: format!("{first} is there"),
        })
    }

    /// Each tensor of each output.
    fn output_tensors(&self) -> impl Iterator<Item = Argument<'k>> + use<'k> {
        let kernel = self.kernel;
        kernel.outputs.iter().enumerate().flat_map(move |(at, output)| {
            let tensors = output.tensors();
            (0..tensors).map(move |element| Argument::output(kernel, at).element(element, tensors))
        })
    }

    fn expect(&self, what: &'static str, expected: usize, items: &Items<'_>) -> Result<(), Error> {
        if items.0.len() == expected { Ok(()) } else { Err(self.arguments(what, expected, items.0.len())) }
    }

    fn arguments(&self, what: &'static str, expected: usize, found: usize) -> Error {
        Error::Arguments { kernel: self.kernel.name.clone(), what, expected, found }
    }
}

/// An array, if it may be written.
pub(crate) fn writable<'a, 'k>((argument, matrix): Named<'a, 'k>) -> Result<Named<'a, 'k>, Refused> {
    if matrix.writable { Ok((argument, matrix)) } else { Err(Refused::ReadOnly { argument: argument.to_string() }) }
}

/// Whether, on the CPU, no array that is written has a byte between its first and its last that
/// another array of the call has too. On a GPU arrays may lie between each other's rows.
pub(crate) fn apart<'n, 'a: 'n, 'k: 'n>(
    place: Place,
    written: impl Iterator<Item = &'n Named<'a, 'k>> + Clone,
    read: impl Iterator<Item = &'n Named<'a, 'k>> + Clone,
) -> Result<(), Refused> {
    if place != Place::Cpu {
        return Ok(());
    }
    for (at, (argument, matrix)) in written.clone().enumerate() {
        let span = matrix.span();
        for (other, matrix) in written.clone().take(at).chain(read.clone()) {
            let with = matrix.span();
            if span.start < with.end && with.start < span.end {
                return Err(Refused::Shared { argument: argument.to_string(), other: other.to_string() });
            }
        }
    }
    Ok(())
}

/// An array, if it is one stretch of elements.
pub(crate) fn stretch<'a, 'k>((argument, matrix): Named<'a, 'k>) -> Result<Named<'a, 'k>, Refused> {
    if matrix.columns != 1 {
        let because = "it is one stretch of memory".to_owned();
        let (argument, found) = (argument.to_string(), matrix.columns);
        return Err(Error::Size { argument, axis: "columns", found, expected: 1, because }.into());
    }
    if matrix.row_stride != 1 {
        return Err(Error::ColumnStride { argument: argument.to_string(), found: matrix.row_stride }.into());
    }
    Ok((argument, matrix))
}

/// Arrays without what errors call them.
pub(crate) fn unnamed<'n, 'a>(named: &'n [Named<'a, '_>]) -> impl Iterator<Item = &'n Matrix<'a>> {
    named.iter().map(|(_, matrix)| matrix)
}

/// The same where some are not there.
pub(crate) fn some_unnamed<'n, 'a>(named: &'n [Option<Named<'a, '_>>]) -> impl Iterator<Item = Option<&'n Matrix<'a>>> {
    named.iter().map(|named| named.as_ref().map(|(_, matrix)| matrix))
}

/// Arrays to be read.
pub(crate) fn views<'a, 'm: 'a>(
    device: &'a Device,
    matrices: impl Iterator<Item = &'a Matrix<'m>>,
) -> Result<Views<AnyView<'a>>, Error> {
    matrices.map(|matrix| borrowed::view(device, matrix)).collect()
}

/// Arrays to be written.
pub(crate) fn views_mut<'a, 'm: 'a>(
    device: &'a Device,
    matrices: impl Iterator<Item = &'a Matrix<'m>>,
) -> Result<Views<AnyViewMut<'a>>, Error> {
    matrices.map(|matrix| borrowed::view_mut(device, matrix)).collect()
}

/// The arrays to be read that are there.
pub(crate) fn some_views<'a, 'm: 'a>(
    device: &'a Device,
    matrices: impl Iterator<Item = Option<&'a Matrix<'m>>>,
) -> Result<Views<Option<AnyView<'a>>>, Error> {
    matrices.map(|matrix| matrix.map(|matrix| borrowed::view(device, matrix)).transpose()).collect()
}

/// The arrays to be written that are there.
pub(crate) fn some_views_mut<'a, 'm: 'a>(
    device: &'a Device,
    matrices: impl Iterator<Item = Option<&'a Matrix<'m>>>,
) -> Result<Views<Option<AnyViewMut<'a>>>, Error> {
    matrices.map(|matrix| matrix.map(|matrix| borrowed::view_mut(device, matrix)).transpose()).collect()
}
