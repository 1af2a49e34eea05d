//! The derived backward: one walk over the nodes in reverse.
//!
//! | op | cotangent of its operands |
//! |---|---|
//! | `read x` | the gradient of `x` at the same position |
//! | `gather table at r` | an ordered segment sum at `r` into the gradient of `table` |
//! | `cast` | passed straight through |
//! | `add` | passed to both operands |
//! | `segment_sum at r` | a gather of the output's cotangent at `r` |
//! | `zero` | nothing |
//!
//! Cotangents of one value are added in f32, uses in reverse program order,
//! before any sum over positions. The sums of one table through several row
//! expressions are added in the accumulator, in declaration order, and rounded
//! once.

mod build;
mod prune;

use crate::ir::{FloatType, InputId, InputKind, Kernel, Op, OutputKind, RowId, Verified};
use build::{Builder, Cotangent};

/// The inputs whose gradient is wanted, in declaration order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wants(Vec<InputId>);

impl Wants {
    /// The gradients of these inputs. `None` if there is none, or one of an index.
    pub fn of(kernel: &Kernel, inputs: impl IntoIterator<Item = InputId>) -> Option<Wants> {
        let mut inputs: Vec<InputId> = inputs.into_iter().collect();
        inputs.sort_unstable();
        inputs.dedup();
        let differentiable = |id: &InputId| kernel.inputs.get(id.index()).is_some_and(|input| !input.is_index());
        (!inputs.is_empty() && inputs.iter().all(differentiable)).then_some(Wants(inputs))
    }

    /// The gradients of all differentiable inputs.
    pub fn all(kernel: &Kernel) -> Wants {
        let ids = (0..kernel.inputs.len() as u32).map(InputId);
        Wants(ids.filter(|id| !kernel.inputs[id.index()].is_index()).collect())
    }

    /// The inputs, in declaration order.
    pub fn inputs(&self) -> &[InputId] {
        &self.0
    }
}

/// The backward of a declared kernel, pruned to what is wanted.
///
/// Inputs: the indices, then one cotangent `d_<output>` per output. Outputs: one
/// gradient `d_<input>` per wanted input, in declaration order. The stored type
/// of a table's gradient is a float parameter of the gradient's name, by default
/// the table's type. What no wanted gradient needs is left out.
pub fn backward(kernel: &Verified, wants: &Wants) -> Verified {
    let mut builder = Builder::new(kernel);
    seed(kernel, &mut builder);
    for at in (0..kernel.nodes.len()).rev() {
        let cotangents = builder.take_cotangents(at);
        if cotangents.is_empty() {
            continue;
        }
        match kernel.nodes[at].op {
            Op::Read { input, element } => {
                let sum = builder.sum(at, cotangents);
                builder.read_gradient(input, element, sum);
            }
            Op::Gather { table, chunk, row } => {
                for cotangent in cotangents {
                    builder.gather_gradient(table, chunk, row, at, cotangent);
                }
            }
            Op::Cast { value } => builder.give(value, cotangents),
            Op::Add { left, right } => {
                builder.give(right, cotangents.clone());
                builder.give(left, cotangents);
            }
            Op::SegmentSum { value, row } => {
                let rows = cotangents.into_iter().map(|cotangent| builder.gather(at, cotangent, row)).collect();
                builder.give(value, rows);
            }
            Op::Zero => {}
        }
    }
    for &input in wants.inputs() {
        builder.output(input);
    }
    let pruned = prune::prune(builder.kernel);
    pruned.verify().expect("the derivation keeps every rule of a verified kernel")
}

/// Gives each returned value its cotangent, the last use first.
fn seed(kernel: &Kernel, builder: &mut Builder<'_>) {
    for (at, output) in kernel.outputs.iter().enumerate().rev() {
        let input = builder.cotangent_inputs[at];
        for (element, &value) in output.values.iter().enumerate().rev() {
            let element = element as u32;
            let cotangent = match output.kind {
                OutputKind::Rows(ty) => Cotangent::Rows(builder.read(value, input, element, ty)),
                OutputKind::Table { .. } => Cotangent::Chunk(input, element),
            };
            builder.give(value, vec![cotangent]);
        }
    }
}

/// Chunks of a table input, 1 for rows.
fn chunks(kernel: &Kernel, input: InputId) -> u32 {
    match kernel.inputs[input.index()].kind {
        InputKind::Table { chunks, .. } => chunks,
        InputKind::Rows(_) | InputKind::Index { .. } => kernel.inputs[input.index()].count,
    }
}

/// The type that a differentiable input is stored in.
fn stored(kernel: &Kernel, input: InputId) -> FloatType {
    match kernel.inputs[input.index()].kind {
        InputKind::Rows(ty) | InputKind::Table { ty, .. } => ty,
        InputKind::Index { .. } => unreachable!("Wants holds no index"),
    }
}

/// The order in which the sums of one table are added.
fn rows_in_order(kernel: &Kernel) -> impl Iterator<Item = RowId> {
    (0..kernel.rows.len() as u32).map(RowId)
}
