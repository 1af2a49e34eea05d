//! The kernels of these tests and short ways to call them.

use half::{bf16, f16};
use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, DType, Verified, Wants};
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, Element, Error, RowPlan, Stream, allocate_outputs, run,
};

pub const ADALN: &str = "\
kernel adaln_row_gather forward
order block = 256, accumulate = f32
float T
int I
rows R
input table: table<T, R, 6>
input timestep: index<I, R / 3>
input modality: index<I, 3>
row r0: R = timestep * 3 + modality
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[1] at r0
v2: rows<T> = gather table[2] at r0
v3: rows<T> = gather table[3] at r0
v4: rows<T> = gather table[4] at r0
v5: rows<T> = gather table[5] at r0
output out: rows<T> = [v0, v1, v2, v3, v4, v5]
";

/// The same with `pad = -1` on the tag.
pub fn adaln_padded() -> Declaration {
    Declaration::from_ir(&ADALN.replace("index<I, 3>", "index<I, 3, pad = -1>")).unwrap()
}

pub fn adaln(accumulate: Accumulate) -> Declaration {
    let declared = Declaration::from_ir(ADALN).unwrap();
    declared.with_order(Order { accumulate, ..Order::default() }).unwrap()
}

/// One table read at two row expressions; the second read is used twice.
pub const TWO_ROWS: &str = "\
kernel two_rows forward
order block = 4, accumulate = f32
float T
rows R
input table: table<T, R, 1>
input first: index<i32, R>
input second: index<u8, R>
row r0: R = first
row r1: R = second
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[0] at r1
output out0: rows<T> = [v0]
output out1: rows<T> = [v1, v1]
";

/// A sum over positions as a forward.
pub const SEGMENT_SUM: &str = "\
kernel segments forward
order block = 256, accumulate = f32
float T
rows R
input y: rows<T>
input token: index<i64, R>
row r0: R = token
v0: rows<T> = read y[0]
v1: table<acc, R> = segment_sum v0 at r0
v2: table<T, R> = cast v1
output out: table<T, R> = [v2]
";

pub fn segments(accumulate: Accumulate) -> Declaration {
    let declared = Declaration::from_ir(SEGMENT_SUM).unwrap();
    declared.with_order(Order { accumulate, ..Order::default() }).unwrap()
}

pub fn all(declaration: &Declaration) -> std::sync::Arc<Verified> {
    declaration.backward(&Wants::all(declaration.forward()))
}

pub fn cpu() -> Stream {
    Device::cpu().stream().unwrap()
}

/// Bits of an element, so that comparisons see NaN payloads and the sign of zero.
pub trait Bits: Element {
    fn bits(self) -> u32;
    fn from_bits32(bits: u32) -> Self;
    fn wide(self) -> f32;
}

impl Bits for f32 {
    fn bits(self) -> u32 {
        self.to_bits()
    }
    fn from_bits32(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    fn wide(self) -> f32 {
        self
    }
}

macro_rules! half_bits {
    ($($ty:ty),*) => {$(
        impl Bits for $ty {
            fn bits(self) -> u32 {
                self.to_bits().into()
            }
            fn from_bits32(bits: u32) -> $ty {
                <$ty>::from_bits(bits as u16)
            }
            fn wide(self) -> f32 {
                self.to_f32()
            }
        }
    )*};
}
half_bits!(f16, bf16);

pub fn bits<E: Bits>(values: &[E]) -> Vec<u32> {
    values.iter().map(|value| value.bits()).collect()
}

/// Allocates outputs filled with 0xFF, runs, and gives them back.
pub fn call(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    counts: &[(&str, u64)],
    gradient: Option<DType>,
    plans: Option<&[&RowPlan]>,
) -> Result<Vec<Vec<AnyTensor>>, Error> {
    let mut outputs = allocate_outputs(stream, kernel, inputs, counts, gradient)?;
    let mut views: Vec<Vec<AnyViewMut<'_>>> =
        outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
    for view in views.iter_mut().flatten() {
        view.fill(stream, 0xFF)?;
    }
    run(stream, kernel, Call { inputs, outputs: &mut views, plans, schedule: None, workspace: None })?;
    Ok(outputs)
}

/// All tensors of one output.
pub fn output<E: Bits>(stream: &Stream, tensors: &[AnyTensor]) -> Vec<Vec<u32>> {
    tensors.iter().map(|tensor| bits(&tensor.to_vec::<E>(stream).unwrap())).collect()
}

pub fn column<E: Element>(values: &[E]) -> AnyView<'_> {
    AnyView::from_slice(values, values.len() as u64, 1).unwrap()
}

pub fn matrix<E: Element>(values: &[E], columns: u64) -> AnyView<'_> {
    AnyView::from_slice(values, values.len() as u64 / columns, columns).unwrap()
}
