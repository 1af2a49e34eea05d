use rowloom::kernel;

#[kernel]
pub fn a<'a, T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn b<T, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn c<T: Copy, I: Int + Copy, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize = 9>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

#[kernel]
pub fn e<T, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T>
where
    T: Float,
{
    table[row]
}

#[kernel]
pub fn f<T: Float, I: Int, const R: u32>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row]
}

fn main() {}
