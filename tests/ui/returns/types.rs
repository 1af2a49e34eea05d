use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Vec<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> &Rows<T> {
    table[row]
}

#[kernel]
pub fn c<I: Int, const R: usize>(row: Index<I, R>) -> Index<I, R> {
    row
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> (Rows<T>,) {
    table[row]
}

#[kernel]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> () {
    table[row]
}

#[kernel]
pub fn f<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> [Table<T, R>; 2] {
    table[row]
}

#[kernel]
pub fn g<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> [Rows<T>; 0] {
    [table[row]]
}

fn main() {}
