use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, timestep: Index<I, { R / 3 }>, modality: Index<I, 4>) -> Rows<T> {
    table[timestep * 3 + modality]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row + 1]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, 9>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
