use rowloom::kernel;

#[kernel]
pub fn a<bf16: Float>(x: Rows<bf16>) -> Rows<bf16> {
    x
}

#[kernel]
pub fn b<T: Float>(out: Rows<T>, segment_sum: Rows<T>) -> (Rows<T>, Rows<T>) {
    (out, segment_sum)
}

#[kernel]
pub fn c<T: Float>(d_x: Rows<T>) -> Rows<T> {
    d_x
}

#[kernel]
pub fn d<T: Float>(rl_x: Rows<T>, out0: Rows<T>) -> (Rows<T>, Rows<T>) {
    (rl_x, out0)
}

#[kernel]
pub fn e<T: Float>(r#type: Rows<T>) -> Rows<T> {
    r#type
}

#[kernel]
pub fn f<T: Float>(größe: Rows<T>) -> Rows<T> {
    größe
}

#[kernel]
pub fn of_the_module<Inputs: Float>(x: Rows<Inputs>) -> Rows<Inputs> {
    x
}

fn main() {}
