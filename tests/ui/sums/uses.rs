use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(y, row) + y
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(segment_sum(y, row), row)
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(y)
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(row, row)
}

#[kernel]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(table, row)
}

fn main() {}
