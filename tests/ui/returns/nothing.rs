use rowloom::kernel;

#[kernel]
pub fn k<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) {
    table[row]
}

fn main() {}
