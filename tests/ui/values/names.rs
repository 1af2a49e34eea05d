use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[column]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, { R * 2 }>, row: Index<I, R>) -> Rows<T> {
    let a = table[twice];
    let twice = row + row;
    a
}

fn main() {}
