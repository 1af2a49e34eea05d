use rowloom::kernel;

#[kernel(order(chunk = 256))]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order(block = 0))]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order(block = many))]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order(accumulate = bf16))]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(order(block = [128, 256]))]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
