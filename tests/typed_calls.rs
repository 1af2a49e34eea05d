//! The module that `#[kernel]` generates, used as a user uses it, on the CPU.

use rowloom::prelude::*;
use rowloom::{bf16, registered};

/// Six modulation vectors per packed position.
///
/// More about them.
#[kernel]
pub fn adaln<T: Float, I: Int, const R: usize>(
    /// The modulation table.
    table: Table<T, R, 6>,
    timestep: Index<I, { R / 3 }>,
    modality: Index<I, 3>,
) -> [Rows<T>; 6] {
    table[timestep * 3 + modality]
}

#[kernel]
fn row_sum<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(y, row)
}

#[kernel(order(block = 256, accumulate = f64))]
fn row_sum_f64<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(y, row)
}

#[kernel]
fn mixed<T: Float, I: Int, const R: usize>(
    x: Rows<T>,
    wide: Table<f32, { R * 2 }, 2>,
    narrow: Table<T, 3>,
    row: Index<I, R>,
    tag: Index<u8, 3, { pad = 255 }>,
) -> (Rows<T>, [Rows<f32>; 2], Rows<T>) {
    let [left, right] = wide[row * 2 + 1];
    (narrow[tag], [right, left], x)
}

fn stream() -> Stream {
    Device::cpu().stream().unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn planned_checked_and_into_give_the_same_bytes() {
    let stream = stream();
    let numbers: Vec<f32> = (0..6 * 6 * 5u16).map(|at| f32::from(at) - 40.25).collect();
    let table = Tensor::from_slice(&stream, &numbers, 6, 30).unwrap();
    let timestep = Tensor::from_slice(&stream, &[1i32, 0, 1, 1], 4, 1).unwrap();
    let modality = Tensor::from_slice(&stream, &[2i32, 0, 2, 1], 4, 1).unwrap();
    let inputs = adaln::Inputs { table: table.view(), timestep: timestep.view(), modality: modality.view() };
    let terms = [(timestep.view().any(), 3, 2), (modality.view().any(), 1, 3)];
    let plan = RowPlan::affine(&stream, &terms).unwrap();

    let checked = adaln::forward(&stream, &inputs, None).unwrap();
    let planned = adaln::forward(&stream, &inputs, &plan).unwrap();
    let mut into = adaln::forward(&stream, &inputs, None).unwrap();
    for tensor in &mut into.out {
        tensor.view_mut().any().fill(&stream, 0xFF).unwrap();
    }
    let mut workspace = Workspace::new(&stream);
    adaln::forward_into(&stream, &inputs, &plan, into.view_mut(), &mut workspace).unwrap();
    for (chunk, expected) in checked.out.iter().enumerate() {
        let expected = bits(&expected.to_vec(&stream).unwrap());
        for (position, row) in [5usize, 0, 5, 4].into_iter().enumerate() {
            let source = row * 30 + chunk * 5;
            assert_eq!(expected[position * 5..][..5], bits(&numbers[source..source + 5]));
        }
        assert_eq!(bits(&planned.out[chunk].to_vec(&stream).unwrap()), expected);
        assert_eq!(bits(&into.out[chunk].to_vec(&stream).unwrap()), expected);
    }

    let cotangents = adaln::Cotangents { out: checked.out.each_ref().map(Tensor::view) };
    let wants = adaln::Wants::TABLE;
    let checked = adaln::backward(&stream, &inputs, &cotangents, None, wants).unwrap().table.unwrap();
    let planned = adaln::backward(&stream, &inputs, &cotangents, &plan, wants).unwrap().table.unwrap();
    let mut into = Tensor::<f32>::from_slice(&stream, &[f32::NAN; 180], 6, 30).unwrap();
    let gradients = adaln::GradientsMut { table: Some(into.view_mut()) };
    adaln::backward_into(&stream, &inputs, &cotangents, &plan, gradients, &mut workspace).unwrap();
    let expected: Vec<f32> = numbers
        .chunks(30)
        .zip([1.0, 0.0, 0.0, 0.0, 1.0, 2.0])
        .flat_map(|(row, times)| row.iter().map(move |value| if times == 0.0 { 0.0 } else { value * times }))
        .collect();
    for gradient in [&checked, &planned, &into] {
        assert_eq!(bits(&gradient.to_vec(&stream).unwrap()), bits(&expected));
    }
}

#[test]
fn the_declared_order_is_what_runs() {
    let stream = stream();
    let mut summands = vec![1.0f32; 512];
    summands[0] = 16_777_216.0;
    let y = Tensor::from_slice(&stream, &summands, 512, 1).unwrap();
    let row = Tensor::from_slice(&stream, &[1u8; 512], 512, 1).unwrap();
    let inputs = row_sum::Inputs { y: y.view(), row: row.view() };
    let sums = row_sum::forward(&stream, &inputs, None, 3).unwrap().out;
    assert_eq!((sums.rows(), sums.columns()), (3, 1));
    assert_eq!(bits(&sums.to_vec(&stream).unwrap()), bits(&[0.0, 16_777_472.0, 0.0]));
    let inputs = row_sum_f64::Inputs { y: y.view(), row: row.view() };
    let sums = row_sum_f64::forward(&stream, &inputs, None, 2).unwrap().out;
    assert_eq!(bits(&sums.to_vec(&stream).unwrap()), bits(&[0.0, 16_777_728.0]));
}

#[test]
fn the_backward_of_a_sum_is_a_gather() {
    let stream = stream();
    let y = Tensor::from_slice(&stream, &[bf16::ONE; 6], 3, 2).unwrap();
    let row = Tensor::from_slice(&stream, &[1i64, 0, 1], 3, 1).unwrap();
    let inputs = row_sum::Inputs { y: y.view(), row: row.view() };
    // A NaN with a payload, -0.0 and the smallest subnormal: moved, not computed.
    let cotangent = [0x7F81, 0x8000, 0x0001, 0x3F80].map(bf16::from_bits);
    let cotangent = Tensor::from_slice(&stream, &cotangent, 2, 2).unwrap();
    let cotangents = row_sum::Cotangents { out: cotangent.view() };
    let gradients = row_sum::backward(&stream, &inputs, &cotangents, None, row_sum::Wants::Y).unwrap();
    let gradient: Vec<u16> = gradients.y.unwrap().to_vec(&stream).unwrap().into_iter().map(bf16::to_bits).collect();
    assert_eq!(gradient, [0x0001, 0x3F80, 0x7F81, 0x8000, 0x0001, 0x3F80]);
}

#[test]
fn gradients_can_be_left_out() {
    let stream = stream();
    let x = Tensor::from_slice(&stream, &[3.0f32, 4.0], 2, 1).unwrap();
    let wide = Tensor::from_slice(&stream, &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 4, 2).unwrap();
    let narrow = Tensor::from_slice(&stream, &[10.0f32, 20.0, 30.0], 3, 1).unwrap();
    let row = Tensor::from_slice(&stream, &[1i32, 0], 2, 1).unwrap();
    let tag = Tensor::from_slice(&stream, &[255u8, 2], 2, 1).unwrap();
    let inputs =
        mixed::Inputs { x: x.view(), wide: wide.view(), narrow: narrow.view(), row: row.view(), tag: tag.view() };
    let outputs = mixed::forward(&stream, &inputs, None).unwrap();
    let read = |tensor: &Tensor<f32>| bits(&tensor.to_vec(&stream).unwrap());
    assert_eq!(read(&outputs.out0), bits(&[0.0, 30.0]));
    assert_eq!(read(&outputs.out1[0]), bits(&[7.0, 3.0]));
    assert_eq!(read(&outputs.out1[1]), bits(&[6.0, 2.0]));
    assert_eq!(read(&outputs.out2), bits(&[3.0, 4.0]));

    let cotangents = mixed::Cotangents {
        out0: outputs.out0.view(),
        out1: outputs.out1.each_ref().map(Tensor::view),
        out2: outputs.out2.view(),
    };
    // The plans are those of the declaration, also where the backward needs fewer.
    let wide_plan = RowPlan::new(&stream, Tensor::from_slice(&stream, &[3i32, 1], 2, 1).unwrap().view().any(), 4);
    let wide_plan = wide_plan.unwrap();
    let gradients =
        mixed::backward(&stream, &inputs, &cotangents, None, mixed::Wants::NARROW | mixed::Wants::X).unwrap();
    assert!(gradients.wide.is_none());
    assert_eq!(read(&gradients.narrow.unwrap()), bits(&[0.0, 0.0, 30.0]));
    assert_eq!(read(&gradients.x.unwrap()), bits(&[3.0, 4.0]));
    let narrow_plan = {
        let term = rowloom::Term { name: "tag".to_owned(), factor: 1, bound: 3, pad: Some(255) };
        let shape = rowloom::RowShape { terms: vec![term], offset: 0, rows: 3, block: 256 };
        RowPlan::build(&stream, &shape, &[tag.view().any()]).unwrap()
    };
    for wants in [mixed::Wants::WIDE, mixed::Wants::all()] {
        let plans = [&wide_plan, &narrow_plan];
        let gradients = mixed::backward(&stream, &inputs, &cotangents, plans, wants).unwrap();
        let expected = [0.0, 0.0, 2.0, 3.0, 0.0, 0.0, 6.0, 7.0];
        assert_eq!(read(&gradients.wide.unwrap()), bits(&expected));
        assert_eq!(gradients.narrow.is_some(), wants == mixed::Wants::all());
    }
}

#[test]
fn a_bad_index_is_an_error_and_the_next_call_is_right() {
    let stream = stream();
    let table = Tensor::from_slice(&stream, &[1.0f32; 18], 3, 6).unwrap();
    let zero = Tensor::from_slice(&stream, &[0i64, 0], 2, 1).unwrap();
    let bad = Tensor::from_slice(&stream, &[0i64, 3], 2, 1).unwrap();
    let inputs = adaln::Inputs { table: table.view(), timestep: zero.view(), modality: bad.view() };
    let error = adaln::forward(&stream, &inputs, None).unwrap_err();
    assert_eq!(error.to_string(), "modality[1] is 3, but it must be in 0..3");
    let inputs = adaln::Inputs { modality: zero.view(), ..inputs };
    adaln::forward(&stream, &inputs, None).unwrap();
}

#[test]
fn a_gradient_of_another_shape_than_its_input_is_refused() {
    let stream = stream();
    let table = Tensor::from_slice(&stream, &[1.0f32; 36], 3, 12).unwrap();
    let zero = Tensor::from_slice(&stream, &[0i64], 1, 1).unwrap();
    let inputs = adaln::Inputs { table: table.view(), timestep: zero.view(), modality: zero.view() };
    let cotangent = Tensor::from_slice(&stream, &[1.0f32], 1, 1).unwrap();
    let cotangents = adaln::Cotangents { out: [cotangent.view(); 6] };
    let error = adaln::backward(&stream, &inputs, &cotangents, None, adaln::Wants::TABLE).unwrap_err();
    assert_eq!(error.to_string(), "table has 12 columns, but must have 6: that is the shape of its gradient d_table");
    let ten = Tensor::from_slice(&stream, &[1.0f32; 60], 10, 6).unwrap();
    let inputs = adaln::Inputs { table: ten.view(), ..inputs };
    let error = adaln::backward(&stream, &inputs, &cotangents, None, adaln::Wants::TABLE).unwrap_err();
    assert!(error.to_string().contains("10"), "{error}");
}

#[test]
fn kernels_register_themselves() {
    let names: Vec<&str> = registered().map(|kernel| kernel.name).collect();
    assert_eq!(names, ["adaln", "mixed", "row_sum", "row_sum_f64"]);
    let adaln = registered().next().unwrap();
    let signature = "adaln<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, \
                     timestep: Index<I, { R / 3 }>, modality: Index<I, 3>) -> [Rows<T>; 6]";
    assert_eq!(adaln.signature, signature);
    assert_eq!(adaln.docs, "Six modulation vectors per packed position.");
    assert_eq!((adaln.declaration)().name(), "adaln");
}

#[test]
fn plans_come_in_the_order_in_which_calls_take_them() {
    let stream = stream();
    let numbers = |count: u8| (0..count).map(f32::from).collect::<Vec<f32>>();
    let x = Tensor::from_slice(&stream, &numbers(4), 4, 1).unwrap();
    // R = 3: both expressions go over tables of small rows, so that a swap would find rows too.
    let wide = Tensor::from_slice(&stream, &numbers(12), 6, 2).unwrap();
    let narrow = Tensor::from_slice(&stream, &numbers(3), 3, 1).unwrap();
    let row = Tensor::from_slice(&stream, &[0i64, 2, 1, 0], 4, 1).unwrap();
    let tag = Tensor::from_slice(&stream, &[2u8, 255, 0, 1], 4, 1).unwrap();
    let inputs =
        mixed::Inputs { x: x.view(), wide: wide.view(), narrow: narrow.view(), row: row.view(), tag: tag.view() };
    let plans = mixed::plans(&stream, &inputs).unwrap();
    let planned = mixed::forward(&stream, &inputs, plans.each_ref()).unwrap();
    let checked = mixed::forward(&stream, &inputs, None).unwrap();
    let all = |outputs: mixed::Outputs<f32>| {
        let rows = [&outputs.out0, &outputs.out1[0], &outputs.out1[1], &outputs.out2];
        rows.map(|rows| rows.to_vec(&stream).unwrap())
    };
    let expected = [vec![2.0, 0.0, 0.0, 1.0], vec![3.0, 11.0, 7.0, 3.0], vec![2.0, 10.0, 6.0, 2.0], numbers(4)];
    assert_eq!(all(planned), expected);
    assert_eq!(all(checked), expected);

    // A row count that no input tells is an argument of the plan too.
    let sum = row_sum::Inputs { y: x.view(), row: row.view() };
    let plan = row_sum::plan(&stream, &sum, 5).unwrap();
    assert_eq!((plan.positions(), plan.rows()), (4, 5));
    assert_eq!(
        row_sum::forward(&stream, &sum, &plan, 5).unwrap().out.to_vec(&stream).unwrap(),
        [3.0, 2.0, 1.0, 0.0, 0.0]
    );
}
