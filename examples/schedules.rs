//! Times every legal schedule of the H3 op, planned, and the plan, on a GPU: where the rules
//! for default schedules come from. Device time by events, rounds interleaved, medians in µs.
//!
//! ```console
//! $ cargo run --release --example schedules -- 4097,32768 9
//! ```

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::error::Error;

use half::bf16;
use rowloom::prelude::*;
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, Arch, Schedule, Verified, Wants};
use rowloom_op_adaln::adaln_row_gather;
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, ElementType, PendingPlan, RowShape, Term, allocate_outputs, run, spec,
};

const HIDDEN: u64 = 5376;
const CHUNKS: usize = 6;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let sizes = std::env::args().nth(1).unwrap_or_else(|| "4097,32768".to_owned());
    let rows: u64 = std::env::args().nth(2).unwrap_or_else(|| "9".to_owned()).parse()?;
    let device = Device::cuda(0)?;
    println!("{} driver {}", device.product(), device.driver().unwrap_or_default());
    for positions in sizes.split(',') {
        measure(&device.stream()?, positions.parse()?, rows)?;
    }
    Ok(())
}

/// A tensor of bf16 that is no constant.
fn values(stream: &Stream, rows: u64, columns: u64) -> Outcome<AnyTensor> {
    let elements: Vec<bf16> = (0..rows * columns)
        .map(|at| bf16::from_f32(((at.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0))
        .collect();
    Ok(AnyTensor::from_slice(stream, &elements, rows, columns)?)
}

fn measure(stream: &Stream, positions: u64, rows: u64) -> Outcome<()> {
    let table = values(stream, rows, HIDDEN * CHUNKS as u64)?;
    let index = |bound: u64, shift: u32| {
        let elements: Vec<i64> =
            (0..positions).map(|at| ((at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) % bound) as i64).collect();
        AnyTensor::from_slice(stream, &elements, positions, 1)
    };
    let (timestep, modality) = (index(rows / 3, 40)?, index(3, 20)?);
    let term = |name: &str, factor, bound| Term { name: name.to_owned(), factor, bound, pad: None };
    let shape = RowShape {
        terms: vec![term("timestep", 3, rows / 3), term("modality", 1, 3)],
        offset: 0,
        rows,
        block: Order::default().block,
    };
    let indices = [timestep.view(), modality.view()];
    let plan = RowPlan::build(stream, &shape, &indices)?;
    let mut plans = Vec::new();
    for _ in 0..50 {
        let filler = AnyTensor::zeros(stream, ElementType::U32, 1 << 28, 1)?;
        let start = stream.record()?;
        let pending: PendingPlan<'_> = RowPlan::queue(stream, &shape, &indices)?;
        let end = stream.record()?;
        drop(pending.wait()?);
        drop(filler);
        plans.push(end.elapsed_us(&start)?);
    }
    println!("S = {positions}, R = {rows}: plan {:.1}", median(plans));

    let forward = [vec![table.view()], vec![timestep.view()], vec![modality.view()]];
    let declaration = adaln_row_gather::declaration();
    time(stream, "forward, planned", declaration.forward(), &forward, Some(&[&plan]))?;
    time(stream, "forward, checked", declaration.forward(), &forward, None)?;
    let gradient = values(stream, positions, HIDDEN)?;
    let others: Vec<AnyTensor> = (1..CHUNKS).map(|_| values(stream, positions, HIDDEN)).collect::<Result<_, _>>()?;
    let gradients: Vec<AnyView<'_>> =
        std::iter::once(gradient.view()).chain(others.iter().map(AnyTensor::view)).collect();
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let declared = declaration.with_order(Order { accumulate, ..Order::default() })?;
        let backward = declared.backward(&Wants::all(declared.forward()));
        let inputs = [vec![timestep.view()], vec![modality.view()], gradients.clone()];
        time(stream, &format!("backward, planned, {accumulate}"), &backward, &inputs, Some(&[&plan]))?;
    }
    Ok(())
}

fn time(
    stream: &Stream,
    what: &str,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    plans: Option<&[&RowPlan]>,
) -> Outcome<()> {
    let counts: Vec<(&str, u64)> = plans.iter().flat_map(|plans| plans.iter()).map(|plan| ("R", plan.rows())).collect();
    let counts = if kernel.inputs[0].is_index() { counts } else { vec![] };
    let mut outputs = allocate_outputs(stream, kernel, inputs, &counts, None)?;
    let mut views: Vec<Vec<AnyViewMut<'_>>> =
        outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
    let seen: Vec<Vec<AnyView<'_>>> =
        views.iter().map(|tensors| tensors.iter().map(AnyViewMut::as_view).collect()).collect();
    let found = spec(kernel, inputs, &seen, plans.is_some(), stream.device().arch().unwrap_or(Arch::SM_90))?;
    drop(seen);
    let space = Schedule::space(kernel, &found);
    let legal: Vec<Schedule> = space.into_iter().filter(|schedule| schedule.check(kernel, &found).is_ok()).collect();
    let mut workspace = Workspace::new(stream);
    workspace.reserve(1 << 30)?;
    let mut times: Vec<Vec<_>> = legal.iter().map(|_| Vec::new()).collect();
    for round in 0..13 {
        // The first launch behind a wait is slow, whichever it is.
        let call = Call {
            inputs,
            outputs: &mut views,
            plans,
            schedule: legal.first().copied(),
            workspace: Some(&mut workspace),
        };
        run(stream, kernel, call)?;
        for (schedule, times) in legal.iter().zip(&mut times) {
            let start = stream.record()?;
            let call =
                Call { inputs, outputs: &mut views, plans, schedule: Some(*schedule), workspace: Some(&mut workspace) };
            run(stream, kernel, call)?;
            let end = stream.record()?;
            if round > 2 {
                times.push((start, end));
            }
        }
        stream.synchronize()?;
    }
    let mut rows = Vec::new();
    for (schedule, marks) in legal.iter().zip(times) {
        let times = marks.iter().map(|(start, end)| end.elapsed_us(start)).collect::<Result<Vec<f64>, _>>()?;
        rows.push((median(times), schedule));
    }
    let first = rows[0].0;
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!("  {what}: default {first:.1}, best {:.1} of {}", rows[0].0, rows.len());
    for (us, schedule) in &rows {
        println!("    {us:8.1} {schedule}");
    }
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
