//! Views that reach nowhere, too far, or past the end by a little.

use rowloom_runtime::{AnyTensor, AnyViewMut, Device, Error, Stream, Tensor};

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

#[test]
fn views_of_nothing_are_written_and_cut_without_a_trace() {
    for device in [Device::cpu(), Device::emulated(5).unwrap()] {
        let stream = device.stream().unwrap();
        let numbers: Vec<f32> = (0..10_u8).map(f32::from).collect();
        let mut tensor = AnyTensor::from_slice(&stream, &numbers, 1, 10).unwrap();
        for (rows, columns, stride, offset) in [(2, 2, 8, 0), (5, 0, 9, 10), (1, 2, u64::MAX, 1), (4, 0, u64::MAX, 3)] {
            let strided = |tensor: &mut AnyTensor, checks: fn(&Stream, AnyViewMut<'_>)| {
                for at in 0..=rows {
                    let view = tensor.view_mut().strided(rows, columns, [stride, 1], offset).unwrap();
                    checks(&stream, view.rows(at..at).unwrap());
                }
                if columns == 0 {
                    for at in 0..=rows {
                        let view = tensor.view_mut().strided(rows, columns, [stride, 1], offset).unwrap();
                        checks(&stream, view.rows(at..rows).unwrap());
                    }
                }
            };
            strided(&mut tensor, |stream, mut view| {
                view.fill(stream, 0xFF).unwrap();
                assert!(view.as_view().to_vec::<f32>(stream).unwrap().is_empty());
            });
            strided(&mut tensor, |stream, mut view| {
                let (rows, columns) = (view.as_view().row_count(), view.as_view().column_count());
                let source = AnyTensor::zeros(stream, view.as_view().element_type(), rows, columns).unwrap();
                view.copy_from(stream, source.view()).unwrap();
            });
            strided(&mut tensor, |stream, view| {
                let at = view.as_view().row_count() / 2;
                let (mut first, mut second) = view.split_rows(at).unwrap();
                first.fill(stream, 0xFF).unwrap();
                second.fill(stream, 0xFF).unwrap();
            });
        }
        assert_eq!(tensor.to_vec::<f32>(&stream).unwrap(), numbers, "{device}");
    }
}
