use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    table[row];
    println!();
    fn f() {}
    table[row]
}

#[kernel]
pub fn b<T: Float, I: Int, const R: usize>(table: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let a;
    let b: u32 = row;
    let mut c = row;
    let (d, e) = (row, row);
    let _ = row;
    let f = row else { return };
    table[row]
}

fn main() {}
