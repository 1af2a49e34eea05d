use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int>(small: Table<T, 3>, row: Index<I, 3, { pad = 2 }>) -> Rows<T> {
    small[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R, { pad = 100 }>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Float, const R: usize>(table: Table<T, R>, row: Index<u8, R, { pad = -1 }>) -> Rows<T> {
    table[row]
}

fn main() {}
