//! Calls on the CPU.

use rowloom_codegen::Verified;
use rowloom_codegen::cuda::PlanArray;

use super::{Operands, Prepared, rows};
use crate::cpu::{self, HostRows, RowsRef, Tiling};
use crate::error::Error;
use crate::plan::{HostPlan, RowPlan, validated_rows};

pub(super) fn run(
    kernel: &Verified,
    prepared: &Prepared,
    operands: Operands<'_, '_, '_>,
    tiling: &Tiling,
) -> Result<(), Error> {
    let (Operands { inputs, outputs, plans }, Prepared { spec, positions, .. }) = (operands, prepared);
    if let Some(plans) = plans {
        let rows = plans.iter().map(|plan| of_plan(plan)).collect();
        return cpu::run(kernel, spec, *positions, inputs, rows, outputs, tiling);
    }
    let validated = rows::all(kernel, |row| {
        let shape = rows::shape(kernel, spec, row);
        let indices = rows::indices(kernel, inputs, row);
        let rows = tiling.install(|| validated_rows(&shape, &indices, *positions))??;
        let sorted = kernel.sums_by(row).then(|| HostPlan::sort(&rows, shape.rows, shape.block)).transpose()?;
        Ok((rows, sorted))
    })?;
    let rows = validated.iter().map(|(rows, sorted)| of_indices(rows, sorted.as_ref())).collect();
    cpu::run(kernel, spec, *positions, inputs, rows, outputs, tiling)
}

fn of_plan(plan: &RowPlan) -> RowsRef<'_> {
    let array = |array: PlanArray| {
        let view = plan.array(array);
        let length = view.row_count();
        let host = HostRows::new(&view).expect("the call's devices have been checked");
        host.column(length)
    };
    RowsRef {
        rows: array(PlanArray::Rows),
        order: array(PlanArray::Order),
        segment_start: array(PlanArray::SegmentStart),
    }
}

fn of_indices<'a>(rows: &'a [u32], sorted: Option<&'a HostPlan>) -> RowsRef<'a> {
    match sorted {
        Some(HostPlan { order, segment_start, .. }) => RowsRef { rows, order, segment_start },
        None => RowsRef { rows, order: &[], segment_start: &[] },
    }
}
