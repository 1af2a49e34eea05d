use rowloom::kernel;

#[kernel(order(block 256))]
pub fn k<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
