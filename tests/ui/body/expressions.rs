use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    if true { table[row] } else { table[row] }
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let a = table.get(row);
    let b = std::f32::consts::PI;
    table[row]
}

#[kernel]
pub fn c<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    gather(table, row)
}

#[kernel]
pub fn d<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let a = &table;
    let b = |x| x;
    let c = [row; 2];
    let d = "text";
    table[row]
}

#[kernel]
pub fn e<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row * 2usize + 99999999999999999999]
}

fn main() {}
