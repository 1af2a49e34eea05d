use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, { pad }>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, 4>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, { fill = 3 }>) -> Rows<T> {
    table[row]
}

fn main() {}
