use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R, 2>, row: Index<I, R>) -> (Rows<T>, Rows<T>, Rows<T>) {
    let [a, b, c] = table[row];
    (a, b, c)
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, row: Index<I, R>) -> (Rows<T>, Rows<T>) {
    let [a, b] = table[row];
    (a, b)
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, row: Index<I, R>) -> Rows<T> {
    let [.., a, ..] = table[row];
    a
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let [a, b] = row;
    table[a + b]
}

fn main() {}
