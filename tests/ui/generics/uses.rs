use rowloom::kernel;

#[kernel]
pub fn a<T: Float, U: Float, I: Int, J: Int, const R: usize, const N: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, U: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<U> {
    table[row]
}

fn main() {}
