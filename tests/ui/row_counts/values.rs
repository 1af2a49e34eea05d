use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, 0>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, { R / 4 * 2 }>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, { 10 / 3 }>) -> Rows<T> {
    table[row]
}

fn main() {}
