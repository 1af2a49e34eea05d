//! Outputs reached by moves alone are bit copies.

use half::{bf16, f16};
use rowloom_codegen::Accumulate;

use super::kernels::*;
use super::reference::Random;

/// Every position's six rows against the table, byte by byte.
fn check<E: Bits>(positions: usize, timesteps: u64, hidden: usize, random: &mut Random) {
    let rows = 3 * timesteps as usize;
    let mask = if size_of::<E>() == 4 { u32::MAX } else { 0xFFFF };
    let table: Vec<E> = (0..rows * 6 * hidden).map(|_| E::from_bits32(random.next() as u32 & mask)).collect();
    let timestep: Vec<i64> = (0..positions).map(|_| random.below(timesteps) as i64).collect();
    let modality: Vec<i64> = (0..positions).map(|_| random.below(3) as i64).collect();
    let inputs = [vec![matrix(&table, 6 * hidden as u64)], vec![column(&timestep)], vec![column(&modality)]];
    let stream = cpu();
    let outputs = call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap();
    let outputs = output::<E>(&stream, &outputs[0]);
    for (chunk, found) in outputs.iter().enumerate() {
        for s in 0..positions {
            let row = (timestep[s] * 3 + modality[s]) as usize;
            for h in 0..hidden {
                let expected = table[(row * 6 + chunk) * hidden + h].bits();
                assert_eq!(found[s * hidden + h], expected, "chunk {chunk}, position {s}, column {h}");
            }
        }
    }
}

#[test]
fn a_gather_copies_every_pattern() {
    let mut random = Random(1);
    for (positions, timesteps, hidden) in [(1, 1, 1), (2, 1, 5), (3, 3, 8), (257, 3, 33), (832, 9, 16)] {
        check::<f32>(positions, timesteps, hidden, &mut random);
        check::<f16>(positions, timesteps, hidden, &mut random);
        check::<bf16>(positions, timesteps, hidden, &mut random);
    }
}

#[test]
fn encodings_survive() {
    let table: Vec<bf16> = [0x7F81, 0xFFC1, 0x8000, 0x0001, 0x7F80, 0xFF80].map(bf16::from_bits).repeat(3);
    let (timestep, modality) = ([0_u8], [2_u8]);
    let inputs = [vec![matrix(&table, 6)], vec![column(&timestep)], vec![column(&modality)]];
    let stream = cpu();
    let outputs = call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap();
    let found = output::<bf16>(&stream, &outputs[0]).concat();
    assert_eq!(found, [0x7F81, 0xFFC1, 0x8000, 0x0001, 0x7F80, 0xFF80]);
}

#[test]
fn a_padded_position_gathers_positive_zero_and_adds_nothing() {
    let table = vec![-1.5_f32; 3 * 6 * 2];
    let timestep = vec![0_i64; 64];
    let mut modality = vec![1_i64; 64];
    modality[59..].fill(-1);
    let declared = adaln_padded();
    let stream = cpu();
    let inputs = [vec![matrix(&table, 12)], vec![column(&timestep)], vec![column(&modality)]];
    let outputs = call(&stream, declared.forward(), &inputs, &[], None, None).unwrap();
    for found in output::<f32>(&stream, &outputs[0]) {
        assert!(found[..118].iter().all(|&bits| bits == (-1.5_f32).to_bits()));
        assert!(found[118..].iter().all(|&bits| bits == 0));
    }
    let gradient: Vec<f32> = (0..128).map(|at| if at < 118 { 1.0 } else { f32::NAN }).collect();
    let inputs = [vec![column(&timestep)], vec![column(&modality)], vec![matrix(&gradient, 2); 6]];
    let outputs = call(&stream, &all(&declared), &inputs, &[("R", 3)], None, None).unwrap();
    let found = output::<f32>(&stream, &outputs[0]).concat();
    assert!(found[12..24].iter().all(|&bits| bits == 59_f32.to_bits()));
    assert!(found[..12].iter().chain(&found[24..]).all(|&bits| bits == 0));
}

#[test]
fn the_backward_of_a_sum_gathers_and_copies() {
    let table: Vec<bf16> = [0x7F81, 0xFFC1, 0x8000, 0x0001].map(bf16::from_bits).to_vec();
    let token = [1_i64, 0, 1];
    let stream = cpu();
    let inputs = [vec![column(&token)], vec![matrix(&table, 2)]];
    let outputs = call(&stream, &all(&segments(Accumulate::F32)), &inputs, &[], None, None).unwrap();
    assert_eq!(output::<bf16>(&stream, &outputs[0])[0], [0x8000, 1, 0x7F81, 0xFFC1, 0x8000, 1]);
}
