use rowloom::kernel;

#[kernel]
pub fn a<T: Float>(x: Rows<T>, x: Rows<T>) -> (Rows<T>, Rows<T>) {
    (x, x)
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let row = row + 0;
    table[row]
}

#[kernel]
pub fn c<T: Float>(x: Rows<T>, X: Rows<T>) -> (Rows<T>, Rows<T>) {
    (x, X)
}

fn main() {}
