//! Calls of a measured implementation: of a whole batch, and of some of its
//! positions, picked where they lie.

use rowloom_codegen::Verified;
use rowloom_codegen::ir::{Direction, InputKind, OutputKind};
use rowloom_runtime::baseline::{Found, Rows};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, allocate_outputs};

use crate::error::{Error, Result};

use super::Measurement;

/// Views of the inputs or outputs of a call.
pub type Views<'v> = Vec<Vec<AnyView<'v>>>;

/// The outputs of calls of up to so many positions.
pub struct Outputs {
    tensors: Vec<Vec<AnyTensor>>,
    /// Whether each output has a row per position.
    by_position: Vec<bool>,
}

impl Outputs {
    /// Room for those of a call with these inputs.
    pub fn new(measurement: &Measurement<'_>, direction: Direction, inputs: &[Vec<AnyView<'_>>]) -> Result<Outputs> {
        let kernel = measurement.implementation.kernel(direction);
        let counts = measurement.case.named_counts(kernel);
        let stream = measurement.baseline.stream();
        let tensors = allocate_outputs(stream, kernel, inputs, &counts, None).map_err(Error::failed)?;
        let by_position = kernel.outputs.iter().map(|output| matches!(output.kind, OutputKind::Rows(_)));
        Ok(Outputs { tensors, by_position: by_position.collect() })
    }

    /// Runs one call of `positions` positions.
    pub fn run(
        &mut self,
        measurement: &Measurement<'_>,
        direction: Direction,
        inputs: &[Vec<AnyView<'_>>],
        positions: u64,
        schedule: Option<usize>,
    ) -> Result<()> {
        let mut outputs = self.views_mut(positions)?;
        // What a run leaves unwritten must not pass for what the last run wrote.
        for output in outputs.iter_mut().flatten() {
            output.fill(measurement.baseline.stream(), 0xff).map_err(Error::failed)?;
        }
        measurement.implementation.run(direction, inputs, &mut outputs, schedule)
    }

    /// Those of a call of `positions` positions.
    pub fn views(&self, positions: u64) -> Result<Views<'_>> {
        let mut views = Vec::new();
        for (tensors, &by_position) in self.tensors.iter().zip(&self.by_position) {
            let rows = |tensor: &AnyTensor| if by_position { positions } else { tensor.rows() };
            let of_output = tensors.iter().map(|tensor| tensor.view().rows(0..rows(tensor)));
            views.push(of_output.collect::<std::result::Result<_, _>>().map_err(Error::failed)?);
        }
        Ok(views)
    }

    fn views_mut(&mut self, positions: u64) -> Result<Vec<Vec<AnyViewMut<'_>>>> {
        let mut views = Vec::new();
        for (tensors, &by_position) in self.tensors.iter_mut().zip(&self.by_position) {
            let rows = |tensor: &AnyTensor| if by_position { positions } else { tensor.rows() };
            let of_output = tensors.iter_mut().map(|tensor| {
                let rows = rows(tensor);
                tensor.view_mut().rows(0..rows)
            });
            views.push(of_output.collect::<std::result::Result<_, _>>().map_err(Error::failed)?);
        }
        Ok(views)
    }

    /// The tensors of output `number`.
    pub fn of(&self, number: usize) -> &[AnyTensor] {
        &self.tensors[number]
    }

    /// Tensors with a row per position.
    pub fn with_positions(&self) -> impl Iterator<Item = &AnyTensor> {
        self.tensors.iter().zip(&self.by_position).filter(|(_, by)| **by).flat_map(|(tensors, _)| tensors)
    }

    /// Tensors of sums over positions.
    pub fn sums(&self) -> impl Iterator<Item = &AnyTensor> {
        self.tensors.iter().zip(&self.by_position).filter(|(_, by)| !**by).flat_map(|(tensors, _)| tensors)
    }
}

/// Calls of some positions of a batch.
pub struct Part<'w> {
    whole: &'w [Vec<AnyView<'w>>],
    /// Room for the picked rows of each input; none for a table, which all positions share.
    picked: Vec<Option<Vec<AnyTensor>>>,
    direction: Direction,
    /// What the last call gave.
    pub outputs: Outputs,
}

impl<'w> Part<'w> {
    /// Room for up to `most` positions of a batch.
    pub fn new(
        measurement: &Measurement<'_>,
        direction: Direction,
        whole: &'w [Vec<AnyView<'w>>],
        most: u64,
    ) -> Result<Part<'w>> {
        let kernel: &Verified = measurement.implementation.kernel(direction);
        let stream = measurement.baseline.stream();
        let room = |view: &AnyView<'_>| AnyTensor::uninit(stream, view.element_type(), most, view.column_count());
        let picked = kernel.inputs.iter().zip(whole).map(|(input, views)| match input.kind {
            InputKind::Rows(_) | InputKind::Index { .. } => {
                views.iter().map(room).collect::<std::result::Result<_, _>>().map(Some)
            }
            InputKind::Table { .. } => Ok(None),
        });
        let picked = picked.collect::<std::result::Result<Vec<_>, _>>().map_err(Error::failed)?;
        let outputs = Outputs::new(measurement, direction, &views(whole, &picked, most)?)?;
        Ok(Part { whole, picked, direction, outputs })
    }

    /// Runs these positions as a call of their own.
    pub fn run(&mut self, measurement: &Measurement<'_>, positions: Rows<'_>) -> Result<()> {
        for (whole, picked) in self.whole.iter().zip(&mut self.picked) {
            for (whole, picked) in whole.iter().zip(picked.iter_mut().flatten()) {
                let mut picked = picked.view_mut().rows(0..positions.count()).map_err(Error::failed)?;
                measurement.baseline.gather(&mut picked, *whole, positions).map_err(Error::failed)?;
            }
        }
        let inputs = views(self.whole, &self.picked, positions.count())?;
        self.outputs.run(measurement, self.direction, &inputs, positions.count(), None)
    }
}

fn views<'v>(whole: &[Vec<AnyView<'v>>], picked: &'v [Option<Vec<AnyTensor>>], positions: u64) -> Result<Views<'v>> {
    let of_input = |(whole, picked): (&Vec<AnyView<'v>>, &'v Option<Vec<AnyTensor>>)| match picked {
        Some(picked) => picked.iter().map(|picked| picked.view().rows(0..positions)).collect(),
        None => Ok(whole.clone()),
    };
    whole.iter().zip(picked).map(of_input).collect::<std::result::Result<_, _>>().map_err(Error::failed)
}

/// Compares `left[s]` with `right[rows[s]]` of each pair of tensors, as one comparison.
pub fn compare<'l, 'r>(
    measurement: &Measurement<'_>,
    pairs: impl Iterator<Item = (AnyView<'l>, AnyView<'r>)>,
    rows: Rows<'_>,
    found: &mut Found,
    slot: u64,
) -> Result<()> {
    for (left, right) in pairs {
        measurement.baseline.compare(left, right, rows, found, slot).map_err(Error::failed)?;
    }
    Ok(())
}
