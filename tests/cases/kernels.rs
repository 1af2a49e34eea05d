//! Kernels that have what the H3 ops do not.

use rowloom::prelude::*;

/// Their names.
pub const NAMES: [&str; 5] = ["two_tables", "one_table_twice", "padded", "scatter_of_gathered", "names_of_bodies"];

/// Several tables, row counts, types and outputs; a chunk unread, a value returned twice.
#[kernel]
pub fn two_tables<T: Float, const R: usize, const N: usize>(
    table: Table<T, R, 3>,
    other: Table<f32, { N * 3 }>,
    x: Rows<bf16>,
    a: Index<i32, R>,
    b: Index<i64, N>,
    c: Index<u8, 3>,
) -> ([Rows<T>; 3], Rows<f32>, Rows<bf16>) {
    let [first, _, third] = table[a];
    ([first, third, first], other[b * 3 + c], x)
}

/// One table through two row expressions.
#[kernel(order(block = 64))]
pub fn one_table_twice<T: Float, I: Int, const R: usize>(
    table: Table<T, R>,
    first: Index<I, R>,
    second: Index<I, R>,
) -> (Rows<T>, Rows<T>) {
    (table[first], table[second])
}

/// Positions without a row.
#[kernel(order(block = 16))]
pub fn padded<T: Float, I: Int, const R: usize>(
    table: Table<T, R, 2>,
    group: Index<I, { R / 3 }, { pad = -1 }>,
    member: Index<I, 3>,
) -> [Rows<T>; 2] {
    table[group * 3 + member]
}

/// A sum of what was gathered, by another index.
#[kernel(order(accumulate = f64))]
pub fn scatter_of_gathered<T: Float, I: Int, const R: usize, const N: usize>(
    table: Table<T, R>,
    from: Index<I, R>,
    to: Index<I, N>,
) -> Table<T, N> {
    segment_sum(table[from], to)
}

/// Inputs called what bodies and C++ call their own.
#[kernel(order(block = 32))]
pub fn names_of_bodies<T: Float, const R: usize>(
    table: Table<T, R>,
    table_row0: Table<T, R>,
    from0: Rows<T>,
    row0: Index<i64, R>,
    order0: Index<i32, R>,
    char32_t: Index<u8, R>,
) -> (Rows<T>, Rows<T>, Rows<T>, Table<T, R>, Table<T, R>) {
    (
        table[row0],
        table_row0[order0],
        table[char32_t],
        segment_sum(from0, row0),
        segment_sum(table_row0[char32_t], order0),
    )
}
