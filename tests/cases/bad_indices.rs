//! Indices out of bounds, under every schedule that checks them.

use rowloom::codegen::ir::{Direction, InputKind};
use rowloom::codegen::{Accumulate, DType, IntType};
use rowloom::{Device, Error};

use super::direction;
use super::problem::Problem;

/// The error names the smallest bad position, the argument declared first at equal position, the
/// value and the bound; nothing else is read, and a good call is right after it.
pub fn check(device: &Device) {
    let stream = device.stream().unwrap();
    for name in ["adaln_row_gather", "padded", "one_table_twice"] {
        let kernel = direction(name, Direction::Forward, Accumulate::F32);
        let good = Problem::new(&kernel, DType::Bf16, IntType::I64, &[9], 101, 24);
        let expected = good.expected();
        let mut right = good.place(&stream).unwrap();
        let indices: Vec<usize> = (0..kernel.inputs.len())
            .filter(|input| matches!(kernel.inputs[*input].kind, InputKind::Index { .. }))
            .collect();
        let bound = |input: usize| {
            let InputKind::Index { bound, .. } = kernel.inputs[input].kind else { panic!("it is an index") };
            good.spec().extent(bound)
        };
        let (first, second) = (indices[0], indices[1]);
        let beyond = |input: usize| i64::try_from(bound(input)).unwrap();
        // By position: which index, and what it is.
        let bads: [Vec<(usize, usize, i64)>; 4] = [
            vec![(0, second, -2)],
            vec![(100, first, beyond(first))],
            vec![(66, first, i64::MIN), (37, second, beyond(second)), (38, first, -2)],
            vec![(99, second, i64::MAX), (99, first, i64::MAX), (100, second, -2)],
        ];
        for bad in bads {
            let mut problem = Problem::new(&kernel, DType::Bf16, IntType::I64, &[9], 101, 24);
            for &(position, input, value) in &bad {
                problem.inputs[input][0].bytes[position * 8..][..8].copy_from_slice(&value.to_ne_bytes());
            }
            let &(position, input, value) = bad.iter().min().expect("one is bad");
            let mut wrong = problem.place(&stream).unwrap();
            for schedule in wrong.schedules(false) {
                let error = wrong.run(Some(schedule), false).unwrap_err();
                let Error::Index { argument, position: at, value: found, bound: limit, .. } = &error else {
                    panic!("{}, {schedule}: {error}", problem.name())
                };
                assert_eq!(
                    (argument.as_str(), *at, *found, *limit),
                    (kernel.inputs[input].name.as_str(), position as u64, value, bound(input)),
                    "{}, {schedule}",
                    problem.name()
                );
            }
            wrong.check_inputs();
            right.check(&expected, None, false);
        }
    }
}
