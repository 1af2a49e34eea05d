use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(x: Rows<T>, table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    x
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R, 2>, row: Index<I, R>) -> Rows<T> {
    let [a, b] = table[row];
    let c = table[row];
    a
}

fn main() {}
