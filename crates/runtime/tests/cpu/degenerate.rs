//! Views that reach nowhere, too far, or past the end by a little.

use rowloom_runtime::{AnyTensor, Device, Error, Tensor};

#[test]
fn a_view_ends_with_its_tensor() {
    let stream = Device::cpu().stream().unwrap();
    let mut tensor = AnyTensor::from_slice(&stream, &[1.0f32, 2.0, 3.0], 3, 1).unwrap();
    assert!(matches!(tensor.view().strided(4, 1, [1, 1], 0), Err(Error::Range { end: 4, size: 3, .. })));
    assert!(tensor.view_mut().strided(4, 1, [1, 1], 0).is_err());
}

#[test]
fn sizes_beyond_64_bits_are_errors() {
    let stream = Device::cpu().stream().unwrap();
    let tensor = Tensor::from_slice(&stream, &[1.0f32, 2.0], 1, 2).unwrap();
    let view = tensor.view();
    assert!(matches!(view.expanded(1 << 63), Err(Error::Range { what: "bytes", .. })));
    assert!(matches!(view.strided(1 << 62, 2, [0, 1], 0), Err(Error::Range { what: "bytes", .. })));
    let nothing = view.strided(1 << 40, 0, [1 << 40, 1], 0).unwrap();
    assert_eq!(nothing.rows(1 << 39..1 << 40).unwrap().to_vec(&stream).unwrap(), Vec::<f32>::new());
    let large = view.strided(1 << 58, 2, [0, 1], 0).unwrap();
    assert!(matches!(large.to_vec(&stream), Err(Error::OutOfMemory { .. })));
}
