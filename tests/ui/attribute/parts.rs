use rowloom::kernel;

#[kernel(speed = 9)]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order(block = 1), order(block = 2))]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order = 256)]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(tile)]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
