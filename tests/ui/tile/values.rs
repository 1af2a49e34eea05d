use rowloom::kernel;

#[kernel(tile(forward(threads = [100]), backward(kind = [diagonal])))]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel(tile(forward(threads = 96, kind = []), backward(unroll)))]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
