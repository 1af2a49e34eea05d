//! The path of an accelerator, from call to launch, in emulation: bytes equal
//! the CPU's, and errors are the same.

use half::bf16;
use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, Schedule, Verified, Wants};
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, Element, Error, RowPlan, RowShape, Stream, Term,
    Workspace, allocate_outputs, run,
};

const ADALN: &str = include_str!("kernels/adaln.ir");

/// A tensor's elements and shape.
struct Host<E> {
    elements: Vec<E>,
    columns: u64,
}

impl<E: Element> Host<E> {
    fn on(&self, stream: &Stream) -> AnyTensor {
        let rows = self.elements.len() as u64 / self.columns;
        AnyTensor::from_slice(stream, &self.elements, rows, self.columns).unwrap()
    }
}

fn numbers(count: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    })
    .take(count)
}

fn index(count: usize, bound: u64, seed: u64) -> Host<i64> {
    Host { elements: numbers(count, seed).map(|number| (number % bound) as i64).collect(), columns: 1 }
}

fn values(count: usize, columns: u64, seed: u64) -> Host<bf16> {
    let value = |number: u64| bf16::from_f32((number % 4001) as f32 / 100.0 - 20.0);
    Host { elements: numbers(count, seed).map(value).collect(), columns }
}

/// Runs with outputs and workspace filled with NaN.
fn outputs(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    plans: Option<&[&RowPlan]>,
    schedule: Option<Schedule>,
) -> Result<Vec<Vec<u16>>, Error> {
    let counts: &[_] = if kernel.inputs[0].is_index() { &[("R", 9)] } else { &[] };
    let mut outputs = allocate_outputs(stream, kernel, inputs, counts, None)?;
    let mut views: Vec<Vec<AnyViewMut<'_>>> =
        outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
    for view in views.iter_mut().flatten() {
        view.fill(stream, 0xFF)?;
    }
    let mut workspace = Workspace::with_bytes(stream, 1 << 16)?;
    workspace.fill(0xFF)?;
    // What sums builds its plans only where it may allocate.
    let workspace = (plans.is_some() || !kernel.sums()).then_some(&mut workspace);
    run(stream, kernel, Call { inputs, outputs: &mut views, plans, schedule, workspace })?;
    let bits = |tensor: &AnyTensor| Ok(tensor.to_vec::<bf16>(stream)?.into_iter().map(bf16::to_bits).collect());
    outputs.iter().flatten().map(bits).collect()
}

#[test]
fn calls_have_the_bytes_of_the_cpu() {
    let emulated = Device::emulated(7).unwrap();
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let order = Order { block: 8, accumulate };
        let declared = Declaration::from_ir(ADALN).unwrap().with_order(order).unwrap();
        let backward = declared.backward(&Wants::all(declared.forward()));
        for (positions, hidden) in [(1, 1), (3, 8), (100, 5)] {
            let (timestep, mut modality) = (index(positions, 3, 1), index(positions, 3, 2));
            modality.elements[positions / 2] = -1;
            let table = values(9 * 2 * hidden, 2 * hidden as u64, 3);
            let d_out = [4, 5].map(|seed| values(positions * hidden, hidden as u64, seed));
            let all = |stream: &Stream| {
                let (timestep, modality, table) = (timestep.on(stream), modality.on(stream), table.on(stream));
                let d_out = d_out.each_ref().map(|host| host.on(stream));
                let terms = [("timestep", 3, 3, None), ("modality", 1, 3, Some(-1))];
                let terms = terms.map(|(name, factor, bound, pad)| Term { name: name.into(), factor, bound, pad });
                let shape = RowShape { terms: terms.to_vec(), offset: 0, rows: 9, block: 8 };
                let plan = RowPlan::build(stream, &shape, &[timestep.view(), modality.view()]).unwrap();
                let arrays = PlanArray::ALL.map(|array| plan.array(array).to_vec::<u32>(stream).unwrap());
                let forward = [vec![table.view()], vec![timestep.view()], vec![modality.view()]];
                let sums = [vec![timestep.view()], vec![modality.view()], d_out.iter().map(AnyTensor::view).collect()];
                let checked = outputs(stream, declared.forward(), &forward, None, None).unwrap();
                let planned = outputs(stream, declared.forward(), &forward, Some(&[&plan]), None).unwrap();
                assert_eq!(checked, planned);
                let gradient = outputs(stream, &backward, &sums, None, None).unwrap();
                assert_eq!(gradient, outputs(stream, &backward, &sums, Some(&[&plan]), None).unwrap());
                (arrays, (plan.blocks(), plan.partials()), checked, gradient)
            };
            assert!(all(&emulated.stream().unwrap()) == all(&Device::cpu().stream().unwrap()), "S = {positions}");
        }
    }
}

#[test]
fn a_bad_index_is_the_same_error_and_the_next_call_is_right() {
    let declared = Declaration::from_ir(ADALN).unwrap();
    let backward = declared.backward(&Wants::all(declared.forward()));
    let message = |device: &Device, timestep: [i64; 3], modality: [i64; 3]| {
        let stream = device.stream().unwrap();
        let column = |elements: [i64; 3]| Host { elements: elements.to_vec(), columns: 1 }.on(&stream);
        let (timestep, modality) = (column(timestep), column(modality));
        let (table, d_out) = (values(9 * 2, 2, 3).on(&stream), values(3, 1, 4).on(&stream));
        let forward = [vec![table.view()], vec![timestep.view()], vec![modality.view()]];
        let sums = [vec![timestep.view()], vec![modality.view()], vec![d_out.view(); 2]];
        let forward = outputs(&stream, declared.forward(), &forward, None, None).map_err(|error| error.to_string());
        let sums = outputs(&stream, &backward, &sums, None, None).map_err(|error| error.to_string());
        (forward, sums)
    };
    let (cpu, emulated) = (Device::cpu(), Device::emulated(7).unwrap());
    let cases = [
        ([0, 3, -1], [0, 3, 0], Some("timestep[1] is 3, but it must be in 0..3")),
        ([0, 1, 9], [0, 3, 0], Some("modality[1] is 3, but it must be in 0..3, or -1 for no row")),
        ([0, 1, i64::MIN], [0, -1, 0], Some("timestep[2] is -9223372036854775808, but it must be in 0..3")),
        ([0, 1, 2], [0, -1, 2], None),
    ];
    for (timestep, modality, expected) in cases {
        let found = message(&emulated, timestep, modality);
        assert_eq!(found, message(&cpu, timestep, modality));
        assert_eq!(found.0.err().as_deref(), expected);
        assert_eq!(found.1.err().as_deref(), expected);
    }
}

#[test]
fn tensors_elsewhere_are_refused() {
    let (cpu, emulated) = (Device::cpu().stream().unwrap(), Device::emulated(7).unwrap().stream().unwrap());
    let declared = Declaration::from_ir(ADALN).unwrap();
    let (table, index_here, index_there) =
        (values(9 * 2, 2, 3).on(&cpu), index(3, 3, 1).on(&cpu), index(3, 3, 1).on(&emulated));
    let inputs = [vec![table.view()], vec![index_here.view()], vec![index_there.view()]];
    let error = outputs(&cpu, declared.forward(), &inputs, None, None).unwrap_err();
    let there = emulated.device().name();
    assert_eq!(error.to_string(), format!("modality is on {there}, but the call runs on cpu"));
    let plan = RowPlan::new(&emulated, index_there.view(), 9).unwrap();
    let inputs = [vec![table.view()], vec![index_here.view()], vec![index_here.view()]];
    let error = outputs(&cpu, declared.forward(), &inputs, Some(&[&plan]), None).unwrap_err();
    let expected = format!("the plan of timestep * 3 + modality is on {there}, but the call runs on cpu");
    assert_eq!(error.to_string(), expected);
}

/// One digit, a digit of all its values, two digits with the last one of a single value, three.
#[test]
fn plans_of_one_digit_and_of_several_have_the_arrays_of_the_cpu() {
    let emulated = Device::emulated(7).unwrap();
    let plans = |stream: &Stream, rows: u64, pad: Option<i64>, positions: usize| {
        let mut row = index(positions, rows, positions as u64);
        if pad.is_some() {
            row.elements.iter_mut().step_by(7).for_each(|row| *row = -1);
        }
        let term = Term { name: "row".to_owned(), factor: 1, bound: rows, pad };
        let shape = RowShape { terms: vec![term], offset: 0, rows, block: 8 };
        let plan = RowPlan::build(stream, &shape, &[row.on(stream).view()]).unwrap();
        [plan.repeat(stream, 1).unwrap(), plan.repeat(stream, 3).unwrap(), plan].map(|plan| {
            let arrays = PlanArray::ALL.map(|array| plan.array(array).to_vec::<u32>(stream).unwrap());
            (arrays, plan.positions(), plan.blocks(), plan.partials(), plan.rowless())
        })
    };
    for (rows, positions) in [(1, 1), (9, 5000), (63, 300), (64, 4097), (65, 4097), (4096, 2049), (4097, 100)] {
        for pad in [None, Some(-1)] {
            let [once, thrice, plan] = plans(&emulated.stream().unwrap(), rows, pad, positions);
            let [cpu_once, cpu_thrice, cpu_plan] = plans(&Device::cpu().stream().unwrap(), rows, pad, positions);
            assert!(plan == cpu_plan, "R = {rows}, S = {positions}, pad {pad:?}");
            assert!(once == cpu_once && once == plan, "once: R = {rows}, S = {positions}, pad {pad:?}");
            assert!(thrice == cpu_thrice, "three times: R = {rows}, S = {positions}, pad {pad:?}");
        }
    }
}

#[test]
fn a_plan_repeats_what_a_batch_holds() {
    let stream = Device::cpu().stream().unwrap();
    let row = index(100, 5, 3);
    let plan = RowPlan::new(&stream, row.on(&stream).view(), 5).unwrap();
    let batch = Host { elements: row.elements.repeat(4), columns: 1 };
    let built = RowPlan::new(&stream, batch.on(&stream).view(), 5).unwrap();
    let repeated = plan.repeat(&stream, 4).unwrap();
    for array in PlanArray::ALL {
        assert_eq!(
            repeated.array(array).to_vec::<u32>(&stream).unwrap(),
            built.array(array).to_vec::<u32>(&stream).unwrap()
        );
    }
    let message = |batch| plan.repeat(&stream, batch).unwrap_err().to_string();
    assert_eq!(message(0), "the batch of the plan has 0 sequences; it must have at least 1");
    assert!(
        message(1 << 40).starts_with("the batch of the plan has 109951162777600 positions"),
        "{}",
        message(1 << 40)
    );
}
