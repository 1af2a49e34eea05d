//! The command that makes a record of a given key.

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::ir::{Direction, Kernel};
use rowloom_codegen::{DType, IntType, SClass, Spec, Subject, Verified, Wants};

use super::{For, Record};
use crate::declaration::registered;
use crate::sources;

/// The `rowloom tune` that measures a subject again and makes a record of this one's key. `None` where
/// it makes no such records: of tensors that are strided or of several types, and of plans that no
/// kernel of this program takes.
pub(super) fn of(subject: &Subject, record: &Record) -> Option<String> {
    match (subject, &record.key) {
        (Subject::Kernel { kernel, .. }, For::Kernel { spec, .. }) => of_kernel(kernel, spec, record.positions),
        (Subject::Plan(shape), For::Plan { .. }) => of_plan(shape, record.positions),
        (Subject::Kernel { .. }, For::Plan { .. }) | (Subject::Plan(_), For::Kernel { .. }) => None,
    }
}

/// Every flag that the key depends on. S is the one that was measured: another one of its bucket may
/// be of another class.
fn of_kernel(kernel: &Verified, spec: &Spec, positions: u64) -> Option<String> {
    let types = || kernel.floats.iter().zip(&spec.floats);
    let dtype = types().find(|(param, _)| param.default.is_none()).map_or(DType::Bf16, |(_, dtype)| *dtype);
    let index = spec.ints.first().copied().unwrap_or(IntType::I64);
    let mut made = Spec::contiguous(kernel, dtype, index, &spec.counts, spec.hidden);
    let of_gradient = types().zip(&made.floats).find(|((_, wanted), made)| wanted != made);
    let gradient = of_gradient.map(|((_, wanted), _)| *wanted);
    if let Some(gradient) = gradient {
        sources::store_gradients_as(kernel, &mut made, gradient);
    }
    made.s_class = SClass::of(positions, kernel.order.block);
    (made.planned, made.arch) = (spec.planned, spec.arch);
    if made != *spec {
        return None;
    }
    let direction = match kernel.direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
    };
    let (name, hidden, rows) = (&kernel.name, spec.hidden, rows(kernel, &spec.counts));
    let gradient = gradient.map_or(String::new(), |gradient| format!(" --gradient {gradient}"));
    Some(format!(
        "rowloom tune {name} --dtype {dtype}{rows} --hidden {hidden} --index {index}{gradient} \
         --positions {positions} --only {direction}"
    ))
}

/// The row counts: one number where all are equal, else each by its name.
fn rows(kernel: &Kernel, counts: &[u64]) -> String {
    let Some(first) = counts.first() else { return String::new() };
    if counts.iter().all(|count| count == first) {
        return format!(" --rows {first}");
    }
    let named = kernel.counts.iter().zip(counts).map(|(name, count)| format!("{name}={count}"));
    // A forward may have more than its backward: some number for those.
    let forward = registered().find(|registered| registered.name == kernel.name);
    let forward = forward.map(|registered| (registered.declaration)().forward());
    let has_more = forward.is_some_and(|forward| forward.counts.iter().any(|name| !kernel.counts.contains(name)));
    let rest = has_more.then(|| first.to_string());
    format!(" --rows {}", rest.into_iter().chain(named).collect::<Vec<_>>().join(","))
}

/// A plan is of every kernel that takes it: the first one will do, and of any type.
fn of_plan(shape: &PlanShape, positions: u64) -> Option<String> {
    let index = shape.terms.first()?.ty;
    registered().find_map(|registered| {
        let declaration = (registered.declaration)();
        let forward = declaration.forward();
        let backward = declaration.backward(&Wants::all(forward));
        let rows = [forward, &*backward].into_iter().find_map(|kernel| rows_of_plan(kernel, shape, index))?;
        let name = registered.name;
        Some(format!(
            "rowloom tune {name} --dtype bf16 --rows {rows} --index {index} --positions {positions} --only plan"
        ))
    })
}

/// The number of rows for which a kernel takes this plan.
fn rows_of_plan(kernel: &Verified, shape: &PlanShape, index: IntType) -> Option<u64> {
    kernel.rows.iter().find_map(|row| {
        let rows = if row.rows.count.is_none() { shape.rows } else { row.rows.solve(shape.rows)? };
        let spec = Spec::contiguous(kernel, DType::Bf16, index, &vec![rows; kernel.counts.len()], 1);
        let takes = spec.check(kernel).is_ok() && sources::plan_shapes(kernel, &spec).contains(shape);
        takes.then_some(rows)
    })
}
