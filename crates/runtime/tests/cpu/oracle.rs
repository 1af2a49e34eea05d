//! The oracle against sums in integers, and the executor against the oracle.

use half::{bf16, f16};
use rowloom_codegen::{Accumulate, DType};
use rowloom_runtime::oracle::{Exact, exact, round_once};

use super::kernels::*;
use super::reference::Random;

#[test]
fn sums_are_those_of_integers() {
    let mut random = Random(20);
    // f16 values are whole multiples of 2^-24 below 2^40: 64 bits hold their sums.
    let d_out: Vec<f16> = random.values(1000 * 70, f16::from_f32);
    let timestep: Vec<i64> = (0..1000).map(|_| random.below(2) as i64).collect();
    let modality: Vec<i64> = (0..1000).map(|_| random.below(3) as i64).collect();
    let inputs = [vec![column(&timestep)], vec![column(&modality)], vec![matrix(&d_out, 70); 6]];
    let backward = all(&adaln(Accumulate::F32));
    let found = exact(&backward, &inputs, &[("R", 6)], 0, 4, 1..69).unwrap();
    assert_eq!(found.len(), 6 * 68);
    for row in 0..6 {
        for h in 1..69 {
            let of_row = (0..1000).filter(|&s| timestep[s] * 3 + modality[s] == row);
            let units = |s: usize| (f64::from(d_out[s * 70 + h]) * 2f64.powi(24)) as i64;
            let sum: i64 = of_row.map(units).sum();
            let Exact { hi, lo } = found[row as usize * 68 + h - 1];
            assert_eq!((hi * 2f64.powi(24)) as i64 + (lo * 2f64.powi(24)) as i64, sum, "row {row}, column {h}");
        }
    }
}

#[test]
fn the_f64_order_is_correctly_rounded() {
    let mut random = Random(21);
    let token: Vec<i64> = (0..3000).map(|_| random.below(3) as i64).collect();
    let y: Vec<bf16> = random.values(3000 * 5, bf16::from_f32);
    let inputs = [vec![matrix(&y, 5)], vec![column(&token)]];
    let stream = cpu();
    let declared = segments(Accumulate::F64);
    let found = call(&stream, declared.forward(), &inputs, &[("R", 3)], None, None).unwrap();
    let found = output::<bf16>(&stream, &found[0]).concat();
    let expected = exact(declared.forward(), &inputs, &[("R", 3)], 0, 0, 0..5).unwrap();
    assert_eq!(found, expected.iter().map(|&sum| round_once(sum, DType::Bf16)).collect::<Vec<_>>());
}

#[test]
fn a_forward_of_moves_is_exact() {
    let table: Vec<f32> = (0..18).map(|at| at as f32).collect();
    let (timestep, modality) = ([0_i64; 2], [2_i64, 1]);
    let inputs = [vec![matrix(&table, 6)], vec![column(&timestep)], vec![column(&modality)]];
    let found = exact(adaln(Accumulate::F32).forward(), &inputs, &[], 0, 3, 0..1).unwrap();
    assert_eq!(found, [15.0, 9.0].map(|hi| Exact { hi, lo: 0.0 }));
    let beyond = exact(adaln(Accumulate::F32).forward(), &inputs, &[], 0, 6, 0..1).unwrap_err();
    assert_eq!(beyond.to_string(), "values 6..7 is beyond the 6 of the tensor");
}
