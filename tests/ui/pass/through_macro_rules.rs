#![deny(warnings, missing_docs, unused)]
#![forbid(unsafe_code)]

//! A kernel crate with strict lints.

use rowloom::kernel;

macro_rules! gather {
    ($name:ident, $ty:ty, $bound:literal, $chunks:expr, $row:expr) => {
        #[kernel]
        pub fn $name<I: Int>(table: Table<$ty, $bound>, row: Index<I, $bound>) -> Rows<$ty> {
            table[row]
        }
    };
}

gather!(nine, f32, 9, 1, row);
gather!(three, bf16, 3, 1, row);

fn main() {}
