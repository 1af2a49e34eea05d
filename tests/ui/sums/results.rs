use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R, 3> {
    segment_sum([y, y], row)
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<f32, R> {
    segment_sum(y, row)
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Rows<T> {
    segment_sum(y, row)
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(y: Rows<T>, row: Index<I, R>) -> Table<T, R> {
    segment_sum(y, row * 2)
}

fn main() {}
