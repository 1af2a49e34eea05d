use rowloom::kernel;

#[kernel(order(block = 0), tile(forward(warps = [4])))]
pub fn k<T, const R: u32>(table: Table<T, Q>, row: Vector<f32>) -> Row<T> {
    let x = table[column];
    let y = x.sum();
    y - 1
}

fn main() {}
