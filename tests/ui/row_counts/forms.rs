use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, Q>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize, const N: usize>(table: Table<T, { R + 1 }>, row: Index<I, { N * R }>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, { rows() }>, row: Index<I, -1>) -> Rows<T> {
    table[row]
}

fn main() {}
