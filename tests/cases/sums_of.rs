//! The ordered sum of one row.

use rowloom::codegen::Accumulate;
use rowloom::codegen::ir::Direction;
use rowloom::{AnyTensor, Call, Device, Element, allocate_outputs, run};

/// Sums on a device under an accumulator.
pub struct Sums {
    pub device: Device,
    pub accumulate: Accumulate,
}

impl Sums {
    /// The sum of these positions of one row.
    pub fn of<E: Element>(&self, elements: &[E]) -> E {
        let kernel = super::direction("row_scatter_sum", Direction::Forward, self.accumulate);
        let stream = self.device.stream().unwrap();
        let rows = AnyTensor::from_slice(&stream, elements, elements.len() as u64, 1).unwrap();
        let row = AnyTensor::from_slice(&stream, &vec![0i64; elements.len()], elements.len() as u64, 1).unwrap();
        let inputs = [vec![rows.view()], vec![row.view()]];
        let mut outputs = allocate_outputs(&stream, &kernel, &inputs, &[("R", 1)], None).unwrap();
        let mut views = vec![vec![outputs[0][0].view_mut()]];
        let call = Call { inputs: &inputs, outputs: &mut views, plans: None, schedule: None, workspace: None };
        run(&stream, &kernel, call).unwrap();
        outputs[0][0].to_vec::<E>(&stream).unwrap()[0]
    }

    /// The check vectors of `docs/numerics.md`.
    pub fn check(device: &Device) {
        use half::{bf16, f16};
        let sums = |accumulate| Sums { device: device.clone(), accumulate };
        let (narrow, wide) = (sums(Accumulate::F32), sums(Accumulate::F64));
        let mut ones = vec![1.0f32; 512];
        ones[0] = 16_777_216.0;
        assert_eq!(narrow.of(&ones), 16_777_472.0);
        assert_eq!(wide.of(&ones), 16_777_728.0);
        let mut ones = vec![bf16::ONE; 512];
        (ones[0], ones[511]) = (bf16::from_f32(16_777_216.0), bf16::from_f32(-16_777_216.0));
        assert_eq!(narrow.of(&ones).to_f32(), 255.0);
        assert_eq!(narrow.of(&[-0.0f32; 3]).to_bits(), 0);
        assert_eq!(narrow.of(&[1.0, f32::from_bits(0xFFC1_2345)]).to_bits(), 0x7FC0_0000);
        assert!(narrow.of(&[f32::INFINITY, f32::NEG_INFINITY]).is_nan());
        assert_eq!(narrow.of(&[bf16::from_bits(1); 2]).to_bits(), 2);
        assert_eq!(narrow.of(&[1.0e-40f32; 2]).to_bits(), 2 * 1.0e-40f32.to_bits());
        let most = f16::from_f32(65504.0);
        assert_eq!(narrow.of(&[most, most, -most]), most);
        // What a sum in the stored type would drop.
        assert_eq!(narrow.of(&[bf16::ONE; 1000]).to_f32(), 1000.0);
        let sum = narrow.of(&vec![f16::from_f32(0.01); 12_500]).to_f32();
        assert!((124.0..126.0).contains(&sum), "{sum}");
    }
}
