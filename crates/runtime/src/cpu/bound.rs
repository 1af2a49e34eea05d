//! A kernel with the tensors of one call.

use std::ops::Range;

use rowloom_codegen::cuda::PlanArray;
use rowloom_codegen::ir::{InputId, NodeId, Op, ValueType};
use rowloom_codegen::{DType, Spec, Verified};

use super::numbers::Stored;
use crate::tensor::{AnyView, Bytes, Layout};

/// A kernel, its sizes, its inputs and the rows its positions name.
pub(crate) struct Bound<'a> {
    pub(crate) kernel: &'a Verified,
    pub(crate) spec: &'a Spec,
    pub(crate) positions: u64,
    pub(crate) inputs: Vec<Vec<HostRows<'a>>>,
    pub(crate) rows: Vec<RowsRef<'a>>,
}

/// What one row expression gives; the arrays are those of a plan.
#[derive(Clone, Copy)]
pub(crate) struct RowsRef<'a> {
    pub(crate) rows: &'a [u32],
    /// Empty where no sum goes through it.
    pub(crate) order: &'a [u32],
    /// Empty where no sum goes through it.
    pub(crate) segment_start: &'a [u32],
}

/// An input on the CPU.
#[derive(Clone, Copy)]
pub(crate) struct HostRows<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> HostRows<'a> {
    /// `None` for a tensor that is not on the CPU.
    pub(crate) fn new(view: &AnyView<'a>) -> Option<HostRows<'a>> {
        match view.bytes {
            Bytes::Host(bytes) => Some(HostRows { bytes, layout: view.layout }),
            Bytes::Device(_) => None,
        }
    }

    /// All of a contiguous tensor of u32.
    pub(crate) fn column(&self, rows: u64) -> &'a [u32] {
        let start = self.layout.row_bytes(0).start;
        bytemuck::cast_slice(&self.bytes[start..start + rows as usize * 4])
    }

    /// The bytes of some columns of one row.
    pub(crate) fn part(&self, row: u64, columns: &Range<u64>) -> &'a [u8] {
        let size = self.layout.ty.bytes();
        let start = self.layout.row_bytes(row).start;
        &self.bytes[start + (columns.start * size) as usize..start + (columns.end * size) as usize]
    }
}

/// A value that is a copy of an input, or the +0.0 of a position without a row.
pub(crate) enum Moved<'a> {
    Copy(&'a [u8]),
    Zero,
}

impl<'a> Bound<'a> {
    /// The bytes of a node at one position if it is a move, else `None`.
    pub(crate) fn moved(&self, node: NodeId, position: u64, columns: &Range<u64>) -> Option<Moved<'a>> {
        match self.kernel.node(node).op {
            Op::Read { input, element } => Some(Moved::Copy(self.input(input, element).part(position, columns))),
            Op::Gather { table, chunk, row } => {
                let at = self.rows[row.index()].rows[position as usize];
                if at == PlanArray::NO_ROW {
                    return Some(Moved::Zero);
                }
                let first = u64::from(chunk) * self.spec.hidden;
                let columns = first + columns.start..first + columns.end;
                Some(Moved::Copy(self.input(table, 0).part(at.into(), &columns)))
            }
            Op::Cast { .. } | Op::Add { .. } | Op::SegmentSum { .. } | Op::Zero => None,
        }
    }

    fn input(&self, input: InputId, element: u32) -> &HostRows<'a> {
        &self.inputs[input.index()][element as usize]
    }

    /// A row value at one position in f32, exactly as arithmetic sees it.
    pub(crate) fn row_f32(&self, node: NodeId, position: u64, columns: &Range<u64>, out: &mut [f32]) {
        match self.kernel.node(node).op {
            Op::Read { .. } | Op::Gather { .. } => match self.moved(node, position, columns) {
                Some(Moved::Copy(bytes)) => widen(self.stored(node), bytes, out),
                Some(Moved::Zero) | None => out.fill(0.0),
            },
            Op::Cast { value } => {
                self.row_f32(value, position, columns, out);
                if let ValueType::Stored(ty) = self.kernel.node(node).ty {
                    round_in_place(self.spec.float(ty), out);
                }
            }
            Op::Add { left, right } => {
                self.row_f32(left, position, columns, out);
                let mut added = vec![0.0; out.len()];
                self.row_f32(right, position, columns, &mut added);
                for (sum, added) in out.iter_mut().zip(&added) {
                    *sum += added;
                }
            }
            Op::SegmentSum { .. } | Op::Zero => unreachable!("the verifier lets no table value be a row"),
        }
    }

    /// The type a node is stored in.
    pub(crate) fn stored(&self, node: NodeId) -> DType {
        match self.kernel.node(node).ty {
            ValueType::Stored(ty) => self.spec.float(ty),
            ValueType::F32 => DType::F32,
            ValueType::Accumulator => unreachable!("sums are rounded before they are stored"),
        }
    }
}

fn widen(ty: DType, bytes: &[u8], out: &mut [f32]) {
    match ty {
        DType::F32 => f32::widen(bytemuck::cast_slice(bytes), out),
        DType::F16 => half::f16::widen(bytemuck::cast_slice(bytes), out),
        DType::Bf16 => half::bf16::widen(bytemuck::cast_slice(bytes), out),
    }
}

/// Rounds to `ty` and widens again: a rounding point in the middle of arithmetic.
fn round_in_place(ty: DType, values: &mut [f32]) {
    fn each<E: Stored>(values: &mut [f32]) {
        for value in values {
            let rounded = [E::round(*value)];
            E::widen(&rounded, std::slice::from_mut(value));
        }
    }
    match ty {
        DType::F32 => each::<f32>(values),
        DType::F16 => each::<half::f16>(values),
        DType::Bf16 => each::<half::bf16>(values),
    }
}
