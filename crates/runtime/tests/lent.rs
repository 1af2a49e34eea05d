//! Plans, workspaces and gradients in memory of another framework: on the CPU, in emulation and on a GPU.
#![expect(unsafe_code, reason = "addresses mean what their owner says")]

// What it shares with the facade's tests names the facade.
extern crate rowloom_runtime as rowloom;

#[path = "../../../tests/cases/gpu.rs"]
mod gpu;
mod lent {
    pub mod plans;
    pub mod refused;
    pub mod sums;
}

use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::ir::Order;
use rowloom_runtime::{AnyTensor, Declaration, Device, ElementType, RowPlan, RowShape, Stream, row_shape};

use gpu::gpu;

const ADALN: &str = include_str!("kernels/adaln.ir");

const POSITIONS: usize = 300;

fn devices() -> impl Iterator<Item = Device> {
    [Some(Device::cpu()), Some(Device::emulated(3).unwrap()), gpu()].into_iter().flatten()
}

/// The kernel with blocks of 8 positions, so that rows have several.
fn adaln() -> Declaration {
    let order = Order { block: 8, ..Order::default() };
    Declaration::from_ir(ADALN).unwrap().with_order(order).unwrap()
}

/// The shape of its one row expression.
fn shape(declaration: &Declaration) -> RowShape {
    row_shape(declaration.forward(), 0, &[("R", 9)]).unwrap()
}

/// Indices, one position in seven without a row.
fn indices(stream: &Stream) -> [AnyTensor; 2] {
    let timestep: Vec<i64> = (0..POSITIONS as i64).map(|at| at * at % 7 % 3).collect();
    let modality: Vec<i64> = (0..POSITIONS as i64).map(|at| if at % 7 == 3 { -1 } else { at / 5 % 3 }).collect();
    [timestep, modality].map(|index| AnyTensor::from_slice(stream, &index, POSITIONS as u64, 1).unwrap())
}

/// Memory that stands for a framework's, with something in it.
fn memory(stream: &Stream, elements: u64) -> AnyTensor {
    let mut memory = AnyTensor::zeros(stream, ElementType::U32, elements, 1).unwrap();
    memory.view_mut().fill(stream, 0xA5).unwrap();
    memory
}

/// Memory for the state of a plan, and its address.
fn state(stream: &Stream, positions: u64) -> (AnyTensor, u64) {
    let mut state = memory(stream, RowPlan::state_elements(positions, 9, 8).unwrap());
    let address = state.view_mut().as_view().address();
    (state, address)
}

fn arrays(stream: &Stream, plan: &RowPlan) -> [Vec<u32>; PlanArray::ALL.len()] {
    PlanArray::ALL.map(|array| plan.array(array).to_vec(stream).unwrap())
}
