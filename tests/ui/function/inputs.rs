use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(&self, table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T: Float>((a, b): Rows<T>, mut c: Rows<T>) -> Rows<T> {
    a
}

#[kernel]
pub fn c() -> Rows<T> {
    1
}

fn main() {}
