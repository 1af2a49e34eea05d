use rowloom::kernel;

#[kernel]
pub fn a(x: Rows<f32, 3>, t: Table<f32>, i: Index<i64>) -> Rows<f32> {
    x
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R, 0>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn d<I: Int, const R: usize>(table: Table<f64, R>, row: Index<I, R>) -> Rows<I> {
    table[row]
}

#[kernel]
pub fn e<T: Float, const R: usize>(table: Table<T, R>, row: Index<u16, R>, col: Index<T, R>) -> Rows<T> {
    table[row]
}

fn main() {}
