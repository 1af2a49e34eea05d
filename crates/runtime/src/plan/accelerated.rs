//! Plans on an accelerator.

use std::sync::Arc;

use rowloom_codegen::cuda::{self, PlanArray, PlanShape};
use smallvec::smallvec;

use super::{RowPlan, RowShape, fault, place};
use crate::element::ElementType;
use crate::engine::{Queue, Use};
use crate::error::Error;
use crate::launch::{Place, Places, PlanPlace, execute};
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView};

/// Builds a plan with generated code. The shape and the indices have been checked.
pub(super) fn build(
    stream: &Stream,
    queue: &Arc<Queue>,
    shape: &RowShape,
    indices: &[AnyView<'_>],
    positions: u64,
) -> Result<RowPlan, Error> {
    let ready = queue.engine.plan(&generated(shape, indices))?;
    let most_blocks = positions / u64::from(shape.block) + shape.rows;
    let size = |array| match array {
        PlanArray::Rows | PlanArray::Order => positions,
        PlanArray::SegmentStart | PlanArray::BlockStart | PlanArray::PartialStart => shape.rows + 1,
        PlanArray::BlockRow => most_blocks,
    };
    let allocate = |array| AnyTensor::uninit(stream, ElementType::U32, size(array), 1);
    let [a, b, c, d, e, f] = PlanArray::ALL.map(allocate);
    let mut arrays = [a?, b?, c?, d?, e?, f?];
    let addresses = std::array::from_fn(|at| arrays[at].view().address());
    let places = Places {
        positions,
        inputs: indices.iter().map(|index| Place::joined(queue, index, Use::Read)).collect::<Result<_, Error>>()?,
        plans: smallvec![PlanPlace { arrays: addresses, blocks: 0, partials: 0 }],
        ..Places::default()
    };
    if let Some(found) = execute(queue, &ready, &places)? {
        let value = indices[found.term].integer(stream, found.position)?;
        return Err(fault(&shape.terms[found.term], found.position, value));
    }
    let last = |array: PlanArray| -> Result<u64, Error> {
        let view = arrays[place(array)].view().rows(shape.rows..shape.rows + 1)?;
        Ok(view.to_vec::<u32>(stream)?[0].into())
    };
    let (blocks, partials) = (last(PlanArray::BlockStart)?, last(PlanArray::PartialStart)?);
    let rowless = positions - last(PlanArray::SegmentStart)?;
    arrays[place(PlanArray::BlockRow)].truncate(blocks);
    let device = stream.device();
    Ok(RowPlan { device, positions, rows: shape.rows, block: shape.block, arrays, blocks, partials, rowless })
}

/// The shape as the generator wants it: no names, but element types.
fn generated(shape: &RowShape, indices: &[AnyView<'_>]) -> PlanShape {
    let term = |(term, index): (&super::Term, &AnyView<'_>)| {
        let ElementType::Int(ty) = index.element_type() else {
            unreachable!("RowShape::check has refused other types");
        };
        cuda::Term { ty, factor: term.factor, bound: term.bound, pad: term.pad }
    };
    PlanShape {
        terms: shape.terms.iter().zip(indices).map(term).collect(),
        offset: shape.offset,
        rows: shape.rows,
        block: shape.block,
    }
}
