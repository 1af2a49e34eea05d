use rowloom::kernel;

#[kernel]
pub fn a<I: Int, const R: usize>(row: Index<I, R>) -> (Rows<f32>, Rows<f32>) {
    (row, 3)
}

#[kernel]
pub fn b<T: Float, const R: usize>(table: Table<T, R>) -> Rows<T> {
    table
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(x: Rows<T>, row: Index<I, R>) -> Rows<T> {
    x[row]
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R, 2>, row: Index<I, R>) -> Rows<T> {
    table[row][0]
}

#[kernel]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> (Rows<T>, Rows<T>) {
    let pair = (table[row], table[row]);
    pair
}

fn main() {}
