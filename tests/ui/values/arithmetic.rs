use rowloom::kernel;

#[kernel]
pub fn a<T: Float, I: Int, const R: usize>(x: Rows<T>, gate: Table<T, R>, row: Index<I, R>) -> Rows<T> {
    let a = x + gate[row];
    let b = -x;
    let c = sqrt(x) as T;
    let d = 1.0 * x;
    let e = x < b;
    max(a * x, c - d / e)
}

#[kernel]
pub fn b<T: Float>(x: Rows<T>) -> Rows<T> {
    let a = x;
    a += x
}

fn main() {}
