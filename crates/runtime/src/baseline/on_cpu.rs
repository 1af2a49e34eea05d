//! The baseline on a CPU. Sizes, types and devices have been checked.

use std::ops::AddAssign;

use half::{bf16, f16};
use rayon::prelude::*;
use rowloom_codegen::DType;

use crate::element::ElementType;
use crate::tensor::{AnyView, AnyViewMut, Bytes, BytesMut, Layout};

/// Bytes that one task works on.
const PIECE: usize = 1 << 18;

pub(super) fn add_index(rows: &mut AnyViewMut<'_>, index: AnyView<'_>, factor: u64) {
    let (to, from) = (whole_mut(rows), bytes(&index));
    let (to, from): (&mut [i64], &[i64]) = (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from));
    for (row, index) in to.iter_mut().zip(from) {
        *row = row.wrapping_add(index.wrapping_mul(factor as i64));
    }
}

pub(super) fn select(out: &mut AnyViewMut<'_>, table: AnyView<'_>, rows: AnyView<'_>) {
    let (host, layout) = (host(&table), table.layout);
    let rows: &[i64] = bytemuck::cast_slice(bytes(&rows));
    let width = (layout.columns * layout.ty.bytes()) as usize;
    let each = (PIECE / width.max(1)).max(1);
    whole_mut(out).par_chunks_mut(each * width).zip(rows.par_chunks(each)).for_each(|(out, rows)| {
        for (out, &row) in out.chunks_exact_mut(width).zip(rows) {
            if (0..layout.rows as i64).contains(&row) {
                out.copy_from_slice(&host[layout.row_bytes(row as u64)]);
            }
        }
    });
}

/// Adds to the columns of `sums` that `layout` names.
pub(super) fn scatter_add(sums: &mut AnyViewMut<'_>, layout: Layout, values: AnyView<'_>, rows: AnyView<'_>) {
    let rows: &[i64] = bytemuck::cast_slice(bytes(&rows));
    let (sums, values) = (host_mut(sums), bytes(&values));
    match layout.ty {
        ElementType::Float(DType::F32) => scatter::<f32>(sums, layout, bytemuck::cast_slice(values), rows),
        ElementType::Float(DType::F16) => scatter::<f16>(sums, layout, bytemuck::cast_slice(values), rows),
        ElementType::Float(DType::Bf16) => scatter::<bf16>(sums, layout, bytemuck::cast_slice(values), rows),
        ElementType::Int(_) | ElementType::U32 => unreachable!("sums are floats"),
    }
}

fn scatter<E: bytemuck::Pod + AddAssign + Send + Sync>(sums: &mut [u8], layout: Layout, values: &[E], rows: &[i64]) {
    let columns = layout.columns as usize;
    // A task owns columns, so that every sum runs over positions in their order.
    let width = columns.div_ceil(2 * rayon::current_num_threads()).clamp(1, 1024);
    let starts: Vec<usize> = (0..columns).step_by(width).collect();
    let at = |row: u64, first: usize, width: usize| {
        let row: &[E] = bytemuck::cast_slice(&sums[layout.row_bytes(row)]);
        row[first..first + width].to_vec()
    };
    let tiles = starts.into_par_iter().map(|first| {
        let width = width.min(columns - first);
        let mut tile: Vec<E> = (0..layout.rows).flat_map(|row| at(row, first, width)).collect();
        for (position, &row) in rows.iter().enumerate() {
            if !(0..layout.rows as i64).contains(&row) {
                continue;
            }
            let tile = &mut tile[row as usize * width..][..width];
            for (sum, value) in tile.iter_mut().zip(&values[position * columns + first..]) {
                *sum += *value;
            }
        }
        (first, width, tile)
    });
    for (first, width, tile) in tiles.collect::<Vec<_>>() {
        for (row, tile) in tile.chunks_exact(width).enumerate() {
            let row: &mut [E] = bytemuck::cast_slice_mut(&mut sums[layout.row_bytes(row as u64)]);
            row[first..first + width].copy_from_slice(tile);
        }
    }
}

pub(super) fn add(out: &mut AnyViewMut<'_>, left: AnyView<'_>, right: AnyView<'_>) {
    fn each<E: bytemuck::Pod + AddAssign + Send + Sync>(out: &mut [u8], left: &[u8], right: &[u8]) {
        let (left, right): (&[E], &[E]) = (bytemuck::cast_slice(left), bytemuck::cast_slice(right));
        let out: &mut [E] = bytemuck::cast_slice_mut(out);
        out.par_chunks_mut(PIECE).zip(left.par_chunks(PIECE).zip(right.par_chunks(PIECE))).for_each(
            |(out, (left, right))| {
                out.copy_from_slice(left);
                out.iter_mut().zip(right).for_each(|(sum, right)| *sum += *right);
            },
        );
    }
    let ty = out.layout.ty;
    let (out, left, right) = (whole_mut(out), bytes(&left), bytes(&right));
    match ty {
        ElementType::Float(DType::F32) => each::<f32>(out, left, right),
        ElementType::Float(DType::F16) => each::<f16>(out, left, right),
        ElementType::Float(DType::Bf16) => each::<bf16>(out, left, right),
        ElementType::Int(_) | ElementType::U32 => unreachable!("sums are floats"),
    }
}

pub(super) fn fill_ones(tensor: &mut AnyViewMut<'_>) {
    let one = ones(tensor.layout.ty, 1);
    whole_mut(tensor).par_chunks_mut(PIECE).for_each(|piece| {
        for element in piece.chunks_exact_mut(one.len()) {
            element.copy_from_slice(&one);
        }
    });
}

/// The bytes of `count` ones.
pub(super) fn ones(ty: ElementType, count: u64) -> Vec<u8> {
    let one = match ty {
        ElementType::Float(DType::F32) => bytemuck::bytes_of(&1f32).to_vec(),
        ElementType::Float(DType::F16) => bytemuck::bytes_of(&f16::ONE).to_vec(),
        ElementType::Float(DType::Bf16) => bytemuck::bytes_of(&bf16::ONE).to_vec(),
        ElementType::Int(_) | ElementType::U32 => unreachable!("ones are floats"),
    };
    one.repeat(count as usize)
}

pub(super) fn gather(out: &mut AnyViewMut<'_>, source: AnyView<'_>, rows: AnyView<'_>) {
    let (host, layout) = (host(&source), source.layout);
    let rows: &[u32] = bytemuck::cast_slice(bytes(&rows));
    let width = (layout.columns * layout.ty.bytes()) as usize;
    let each = (PIECE / width.max(1)).max(1);
    let copy = |out: &mut [u8], rows: &[u32]| {
        for (out, &row) in out.chunks_exact_mut(width).zip(rows) {
            out.copy_from_slice(&host[layout.row_bytes(row.into())]);
        }
    };
    if out.layout.is_contiguous() {
        whole_mut(out).par_chunks_mut(each * width).zip(rows.par_chunks(each)).for_each(|(out, rows)| copy(out, rows));
        return;
    }
    let to = out.layout;
    let out = host_mut(out);
    for (at, row) in rows.iter().enumerate() {
        copy(&mut out[to.row_bytes(at as u64)], std::slice::from_ref(row));
    }
}

pub(super) fn compare(left: AnyView<'_>, right: AnyView<'_>, rows: AnyView<'_>, slot: &mut AnyViewMut<'_>) {
    let rows: &[u32] = bytemuck::cast_slice(bytes(&rows));
    let (a, b) = ((host(&left), left.layout), (host(&right), right.layout));
    let size = a.1.ty.bytes() as usize;
    let first = |(at, &row): (usize, &u32)| {
        let (left, right) = (&a.0[a.1.row_bytes(at as u64)], &b.0[b.1.row_bytes(row.into())]);
        if left == right {
            return None;
        }
        let column = left.iter().zip(right).position(|(left, right)| left != right)? / size;
        Some(at as u64 * a.1.columns + column as u64)
    };
    let each = (PIECE / (a.1.columns as usize * size).max(1)).max(1);
    let found = if rows.len() <= each {
        rows.iter().enumerate().find_map(first)
    } else {
        rows.par_iter().enumerate().with_min_len(each).find_map_first(first)
    };
    if let Some(found) = found {
        let slot: &mut [u64] = bytemuck::cast_slice_mut(whole_mut(slot));
        slot[0] = slot[0].min(found);
    }
}

/// The memory that a view looks into.
fn host<'a>(view: &AnyView<'a>) -> &'a [u8] {
    match view.bytes {
        Bytes::Host(bytes) => bytes,
        Bytes::Device(_) => unreachable!("the stream is a CPU's, and so are its tensors"),
    }
}

/// The bytes of a view without gaps.
fn bytes<'a>(view: &AnyView<'a>) -> &'a [u8] {
    let span = view.layout.span_bytes();
    &host(view)[span.start as usize..span.end as usize]
}

fn host_mut<'a>(view: &'a mut AnyViewMut<'_>) -> &'a mut [u8] {
    match &mut view.bytes {
        BytesMut::Host(bytes) => bytes,
        BytesMut::Device(_) => unreachable!("the stream is a CPU's, and so are its tensors"),
    }
}

fn whole_mut<'a>(view: &'a mut AnyViewMut<'_>) -> &'a mut [u8] {
    let span = Layout::span_bytes(&view.layout);
    &mut host_mut(view)[span.start as usize..span.end as usize]
}
