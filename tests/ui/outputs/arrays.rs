use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>, row: Index<I, R>) -> [Rows<T>; 5] {
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> [Rows<T>; 1] {
    table[row]
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> [Rows<T>; 2] {
    [table[row], row]
}

#[kernel]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> [Rows<T>; 2] {
    []
}

fn main() {}
