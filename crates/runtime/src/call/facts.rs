//! What the tensors of a call say about its sizes and types.

use rowloom_codegen::ir::{Extent, FloatType, IndexType, InputKind, Kernel, OutputKind};
use rowloom_codegen::spec::{Access, SpecError};
use rowloom_codegen::{Arch, DType, IntType, SClass, Spec};

use crate::element::ElementType;
use crate::error::Error;
use crate::grouped;
use crate::plan::MAX_POSITIONS;
use crate::tensor::AnyView;

/// A fact and the argument that it comes from.
type Known<T> = Option<(T, String)>;

/// What is known so far. Lists run parallel to the kernel's own.
pub(super) struct Facts<'k> {
    kernel: &'k Kernel,
    floats: Vec<Known<DType>>,
    ints: Vec<Known<IntType>>,
    counts: Vec<Known<u64>>,
    hidden: Known<u64>,
    positions: Known<u64>,
}

/// Sizes and types of a call.
pub(super) struct Sizes {
    pub(super) spec: Spec,
    /// S; 1 for a kernel that has no positions.
    pub(super) positions: u64,
}

impl<'k> Facts<'k> {
    /// Of a call of which nothing is known.
    pub(super) fn of_nothing(kernel: &'k Kernel) -> Facts<'k> {
        Facts {
            kernel,
            floats: vec![None; kernel.floats.len()],
            ints: vec![None; kernel.ints.len()],
            counts: vec![None; kernel.counts.len()],
            hidden: None,
            positions: None,
        }
    }

    /// What the inputs say.
    pub(super) fn of_inputs(kernel: &'k Kernel, inputs: &[AnyView<'_>]) -> Result<Facts<'k>, Error> {
        let mut facts = Facts::of_nothing(kernel);
        for (input, tensors) in grouped::inputs(kernel, inputs) {
            for (element, view) in tensors.iter().enumerate() {
                let argument = argument(&input.name, tensors.len(), element);
                match input.kind {
                    InputKind::Rows(ty) => facts.rows(&argument, ty, view)?,
                    InputKind::Table { ty, rows, chunks } => facts.table(&argument, ty, rows, chunks.into(), view)?,
                    InputKind::Index { ty, .. } => facts.index(&argument, ty, view)?,
                }
            }
        }
        Ok(facts)
    }

    /// What the outputs add.
    pub(super) fn add_outputs(&mut self, outputs: &[AnyView<'_>]) -> Result<(), Error> {
        for (output, tensors) in grouped::outputs(self.kernel, outputs) {
            for (element, view) in tensors.iter().enumerate() {
                let argument = argument(&output.name, tensors.len(), element);
                match output.kind {
                    OutputKind::Rows(ty) => self.rows(&argument, ty, view)?,
                    OutputKind::Table { ty, rows } => {
                        self.table(&argument, ty, rows, output.values.len() as u64, view)?;
                    }
                }
                let (columns, row_stride) = (view.column_count(), view.row_stride());
                if view.row_count() > 1 && row_stride < columns {
                    return Err(Error::Overlap { argument, columns, row_stride });
                }
            }
        }
        Ok(())
    }

    /// Row counts given by name.
    pub(super) fn add_counts(&mut self, counts: &[(&str, u64)]) -> Result<(), Error> {
        let kernel = self.kernel;
        for &(name, value) in counts {
            let Some(at) = kernel.counts.iter().position(|count| count == name) else {
                let choices = if kernel.counts.is_empty() { "none".to_owned() } else { kernel.counts.join(", ") };
                return Err(Error::UnknownCount { kernel: kernel.name.clone(), count: name.to_owned(), choices });
            };
            if let Some((expected, by)) = settle(&mut self.counts[at], value, "the call") {
                let because = format!("{name} is {expected} in {by}");
                return Err(Error::Size { argument: name.to_owned(), axis: "rows", found: value, expected, because });
            }
        }
        Ok(())
    }

    /// What an extent is that bounds what is named.
    pub(super) fn extent(&self, name: &str, extent: Extent) -> Result<u64, Error> {
        let Some(count) = extent.count else { return Ok(extent.numerator) };
        let (kernel, count_name) = (&self.kernel.name, &self.kernel.counts[count.index()]);
        let Some((value, _)) = self.counts[count.index()] else {
            return Err(Error::Undetermined { kernel: kernel.clone(), count: count_name.clone() });
        };
        let mut counts = vec![1; self.kernel.counts.len()];
        counts[count.index()] = value;
        let indivisible = || SpecError::Indivisible {
            kernel: kernel.clone(),
            name: name.to_owned(),
            extent: extent.text(&self.kernel.counts),
            count: count_name.clone(),
            value,
            unit: extent.denominator,
        };
        Ok(extent.value(&counts).ok_or_else(indivisible)?)
    }

    /// The stored type of every gradient whose type has a default.
    pub(super) fn store_gradients_as(&mut self, ty: DType) {
        for (param, slot) in self.kernel.floats.iter().zip(&mut self.floats) {
            if param.default.is_some() && slot.is_none() {
                *slot = Some((ty, "the call".to_owned()));
            }
        }
    }

    /// All sizes and types, complete and within their limits. Accesses are as
    /// wide as contiguous tensors allow.
    pub(super) fn finish(self, planned: bool, arch: Arch) -> Result<Sizes, Error> {
        let kernel = self.kernel;
        let missing = |count: &str| Error::Undetermined { kernel: kernel.name.clone(), count: count.to_owned() };
        let mut floats: Vec<DType> = Vec::new();
        for (param, known) in kernel.floats.iter().zip(&self.floats) {
            let ty = match (known, param.default) {
                (Some((ty, _)), _) => *ty,
                (None, Some(FloatType::Fixed(ty))) => ty,
                (None, Some(FloatType::Param(other))) => floats[other.index()],
                (None, None) => return Err(missing(&param.name)),
            };
            floats.push(ty);
        }
        let ints = self.ints.iter().zip(&kernel.ints);
        let ints = ints.map(|(known, name)| known.as_ref().map(|known| known.0).ok_or_else(|| missing(name)));
        let counts = self.counts.iter().zip(&kernel.counts);
        let counts = counts.map(|(known, name)| known.as_ref().map(|known| known.0).ok_or_else(|| missing(name)));
        let positions = self.positions.map_or(1, |known| known.0);
        let mut spec = Spec {
            floats,
            ints: ints.collect::<Result<_, _>>()?,
            counts: counts.collect::<Result<_, _>>()?,
            hidden: self.hidden.ok_or_else(|| missing("H"))?.0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            s_class: SClass::of(positions, kernel.order.block),
            planned: planned || kernel.rows.is_empty(),
            arch,
        };
        let input = |input: &rowloom_codegen::ir::Input| match input.kind {
            InputKind::Rows(ty) | InputKind::Table { ty, .. } => spec.widest(ty),
            InputKind::Index { ty, .. } => Access { vector_bytes: spec.int(ty).bytes() },
        };
        let output = |output: &rowloom_codegen::ir::Output| match output.kind {
            OutputKind::Rows(ty) | OutputKind::Table { ty, .. } => spec.widest(ty),
        };
        let (inputs, outputs) =
            (kernel.inputs.iter().map(input).collect(), kernel.outputs.iter().map(output).collect());
        (spec.inputs, spec.outputs) = (inputs, outputs);
        spec.check(kernel)?;
        Ok(Sizes { spec, positions })
    }

    fn rows(&mut self, argument: &str, ty: FloatType, view: &AnyView<'_>) -> Result<(), Error> {
        not_empty(argument, "rows", view)?;
        self.float(argument, ty, view)?;
        self.positions(argument, "rows", view)?;
        self.hidden(argument, 1, view)
    }

    fn table(
        &mut self,
        argument: &str,
        ty: FloatType,
        rows: Extent,
        chunks: u64,
        view: &AnyView<'_>,
    ) -> Result<(), Error> {
        not_empty(argument, "rows", view)?;
        self.float(argument, ty, view)?;
        self.table_rows(argument, rows, view.row_count())?;
        self.hidden(argument, chunks, view)
    }

    fn index(&mut self, argument: &str, ty: IndexType, view: &AnyView<'_>) -> Result<(), Error> {
        not_empty(argument, "positions", view)?;
        let found = view.element_type();
        let ElementType::Int(int) = found else {
            return Err(wrong_type(argument, "u8, i32 or i64".to_owned(), found));
        };
        let expected = match ty {
            IndexType::Fixed(fixed) => (fixed != int).then(|| fixed.to_string()),
            IndexType::Param(param) => settle(&mut self.ints[param.index()], int, argument)
                .map(|(ty, by)| format!("{ty}: {} is {ty} in {by}", self.kernel.ints[param.index()])),
        };
        if let Some(expected) = expected {
            return Err(wrong_type(argument, expected, found));
        }
        if view.column_count() != 1 {
            let because = "an index is one number a position".to_owned();
            let (argument, found) = (argument.to_owned(), view.column_count());
            return Err(Error::Size { argument, axis: "columns", found, expected: 1, because });
        }
        self.positions(argument, "positions", view)
    }

    fn float(&mut self, argument: &str, ty: FloatType, view: &AnyView<'_>) -> Result<(), Error> {
        let found = view.element_type();
        let ElementType::Float(float) = found else {
            return Err(wrong_type(argument, "f32, f16 or bf16".to_owned(), found));
        };
        let expected = match ty {
            FloatType::Fixed(fixed) => (fixed != float).then(|| fixed.to_string()),
            FloatType::Param(param) => settle(&mut self.floats[param.index()], float, argument)
                .map(|(ty, by)| format!("{ty}: {} is {ty} in {by}", self.kernel.floats[param.index()].name)),
        };
        expected.map_or(Ok(()), |expected| Err(wrong_type(argument, expected, found)))
    }

    /// What counts S: the rows of rows, the positions of an index.
    fn positions(&mut self, argument: &str, axis: &'static str, view: &AnyView<'_>) -> Result<(), Error> {
        let positions = view.row_count();
        if positions > MAX_POSITIONS {
            let argument = argument.to_owned();
            return Err(Error::TooManyPositions { argument, positions, limit: MAX_POSITIONS });
        }
        let Some((expected, by)) = settle(&mut self.positions, positions, argument) else { return Ok(()) };
        let because = format!("S is {expected} in {by}");
        Err(Error::Size { argument: argument.to_owned(), axis, found: positions, expected, because })
    }

    fn hidden(&mut self, argument: &str, chunks: u64, view: &AnyView<'_>) -> Result<(), Error> {
        let (argument, axis, found) = (argument, "columns", view.column_count());
        if let Some((hidden, by)) = &self.hidden {
            let expected = hidden.saturating_mul(chunks);
            if found == expected {
                return Ok(());
            }
            let because = match chunks {
                1 => format!("H is {hidden} in {by}"),
                chunks => format!("it has {chunks} chunks of H columns, and H is {hidden} in {by}"),
            };
            return Err(Error::Size { argument: argument.to_owned(), axis, found, expected, because });
        }
        if !found.is_multiple_of(chunks) {
            let because = format!("it has {chunks} chunks of H columns");
            return Err(Error::NoMultiple { argument: argument.to_owned(), axis, found, of: chunks, because });
        }
        self.hidden = Some((found / chunks, argument.to_owned()));
        Ok(())
    }

    fn table_rows(&mut self, argument: &str, rows: Extent, found: u64) -> Result<(), Error> {
        let text = rows.text(&self.kernel.counts);
        let size = |expected, because| {
            let argument = argument.to_owned();
            Err(Error::Size { argument, axis: "rows", found, expected, because })
        };
        let Some(count) = rows.count else {
            if found == rows.numerator {
                return Ok(());
            }
            return size(rows.numerator, "it is declared so".to_owned());
        };
        let Some(value) = rows.solve(found) else {
            let because = format!("it has {text} rows");
            let argument = argument.to_owned();
            return Err(Error::NoMultiple { argument, axis: "rows", found, of: rows.numerator, because });
        };
        let Some((known, by)) = settle(&mut self.counts[count.index()], value, argument) else { return Ok(()) };
        let name = &self.kernel.counts[count.index()];
        let mut counts = vec![1; self.kernel.counts.len()];
        counts[count.index()] = known;
        size(rows.value(&counts).unwrap_or(0), format!("it has {text} rows, and {name} is {known} in {by}"))
    }
}

/// The name of one tensor of an input or output.
pub(super) fn argument(name: &str, tensors: usize, element: usize) -> String {
    if tensors == 1 { name.to_owned() } else { format!("{name}[{element}]") }
}

/// Keeps the first value; gives what was known when another one comes.
fn settle<T: Copy + PartialEq>(slot: &mut Known<T>, value: T, argument: &str) -> Known<T> {
    match slot {
        Some((known, _)) if *known == value => None,
        Some(known) => Some(known.clone()),
        None => {
            *slot = Some((value, argument.to_owned()));
            None
        }
    }
}

/// Whether a call has as many tensors of an input or output as the kernel.
pub(super) fn tensor_count(name: &str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    let (expected, found, because) = (expected as u64, found as u64, "it is declared so".to_owned());
    Err(Error::Size { argument: name.to_owned(), axis: "tensors", found, expected, because })
}

fn not_empty(argument: &str, first_axis: &'static str, view: &AnyView<'_>) -> Result<(), Error> {
    for (axis, size) in [(first_axis, view.row_count()), ("columns", view.column_count())] {
        if size == 0 {
            return Err(Error::Zero { argument: argument.to_owned(), axis });
        }
    }
    Ok(())
}

fn wrong_type(argument: &str, expected: String, found: ElementType) -> Error {
    Error::ElementType { argument: argument.to_owned(), expected, found }
}

/// The widest access that base, rows and chunks of these tensors are aligned to.
pub(super) fn access(views: &[AnyView<'_>], hidden: u64) -> Access {
    let mut aligned = u64::from(Access::MAX_BYTES);
    for view in views {
        let size = view.element_type().bytes();
        aligned |= view.address() | (hidden * size);
        if view.row_count() > 1 {
            aligned |= view.row_stride() * size;
        }
    }
    Access { vector_bytes: 1 << aligned.trailing_zeros() }
}
