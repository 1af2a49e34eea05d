//! Declarations, expanded outside of a compiler: the IR text of each, and that
//! every error is there at once.

use std::str::FromStr;

use proc_macro2::TokenStream;

use crate::expand;

/// The IR text of a declaration, or its errors, a line each.
fn expand(options: &str, item: &str) -> String {
    let tokens = |text| TokenStream::from_str(text).unwrap();
    match expand::declaration(tokens(options), tokens(item)) {
        Ok((_, kernel)) => kernel.to_string(),
        Err(errors) => errors.into_iter().map(|error| format!("error: {error}\n")).collect(),
    }
}

macro_rules! declared {
    ($($name:ident: $options:literal, $item:literal;)*) => {$(
        #[test]
        fn $name() {
            let (options, item) = ($options, $item);
            insta::with_settings!({ omit_expression => true, description => format!("#[kernel({options})]\n{item}") }, {
                insta::assert_snapshot!(expand(options, item));
            });
        }
    )*};
}

declared! {
    adaln_row_gather: "",
        "pub fn adaln_row_gather<T: Float, I: Int, const R: usize>(
            table: Table<T, R, 6>,
            timestep: Index<I, { R / 3 }>,
            modality: Index<I, 3>,
        ) -> [Rows<T>; 6] {
            table[timestep * 3 + modality]
        }";

    scatter_sum: "order(block = 64, accumulate = f64)",
        "fn scatter_sum<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
            segment_sum(y, row)
        }";

    chunks_are_summed_into_chunks: "",
        "fn pair_sum<T: Float, I: Int, const R: usize>(a: Rows<T>, b: Rows<T>, row: Index<I, R>) -> Table<T, R, 2> {
            segment_sum([a, b], row)
        }";

    chunk_patterns_and_tuples: "tile(forward(threads = [96, 128], kind = [position]), backward(kind = [blocks]))",
        "fn parts<T: Float, U: Float, I: Int, const R: usize>(
            table: Table<T, R, 6>,
            other: Table<U, { 2 * R }>,
            row: Index<I, R>,
        ) -> (Rows<T>, [Rows<T>; 2], Rows<U>) {
            let [shift, _, gate, .., last] = table[row];
            let twice = row * 2 + 1;
            (shift, [last, gate], other[twice])
        }";

    one_table_through_two_rows: "",
        "fn two<T: Float, const R: usize>(
            table: Table<T, R>, a: Index<i64, R>, b: Index<u8, 3, { pad = 255 }>, x: Rows<bf16>,
            small: Table<f32, 3>,
        ) -> (Rows<T>, Rows<f32>, Rows<bf16>, Rows<T>) {
            let picked = table[a];
            (picked, small[b], x, picked)
        }";

    factors_on_either_side_and_nested: "",
        "fn nested<T: Float, I: Int, const N: usize>(
            table: Table<T, { N * 24 }>, a: Index<I, N>, b: Index<I, 2>, c: Index<I, 3>, d: Index<I, 4, { pad = -1 }>,
        ) -> Rows<T> {
            table[4 * (c + 3 * (a * 2 + b)) + d]
        }";

    every_error_at_once: "order(block = 0), speed = 9, tile(sideways(threads = [96]))",
        "async fn wrong<T, const R: u32>(self, table: Table<T, Q>, row: Vector<f32>, unused: Rows<f32>) -> Rows<f32> {
            let x = table[row];
            x.sum() + missing
        }";

    arithmetic_comes_later: "",
        "fn gate<T: Float, I: Int, const R: usize>(x: Rows<T>, g: Table<T, R>, row: Index<I, R>) -> Rows<T> {
            let a = x + g[row];
            let b = -x;
            let c = sqrt(x) as T;
            let d = 1.0 * x;
            x * g[row]
        }";

    a_bare_pad_is_told_its_braces: "",
        "fn padded<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, pad = -1>) -> Rows<T> {
            table[row]
        }";
}
