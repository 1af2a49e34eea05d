use rowloom::kernel;

#[kernel]
pub struct Table;

fn main() {}
