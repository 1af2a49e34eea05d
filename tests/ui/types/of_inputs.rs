use rowloom::kernel;

#[kernel]
pub fn a(x: Tensor<f32>, y: &[f32], z: rowloom::Rows<f32>) -> Rows<f32> {
    x
}

#[kernel]
pub fn b(x: Rows<f32>, weight: Vector<f32>, eps: Scalar, scale: PerRow<f32>) -> Rows<f32> {
    x
}

fn main() {}
