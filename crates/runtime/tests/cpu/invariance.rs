//! Nothing but the declared order reaches the bytes.

use half::bf16;
use rowloom_codegen::Accumulate;
use rowloom_runtime::{Stream, Tiling};

use super::kernels::*;
use super::reference::Random;

#[test]
fn no_tiling_changes_a_byte() {
    let mut random = Random(6);
    let (positions, hidden) = (1500, 70);
    let timestep: Vec<i64> = (0..positions).map(|_| random.below(3) as i64).collect();
    let modality: Vec<i64> = (0..positions).map(|_| random.below(3) as i64).collect();
    let table: Vec<bf16> = random.values(9 * 6 * hidden, bf16::from_f32);
    let d_out: Vec<bf16> = random.values(positions * hidden, bf16::from_f32);
    let forward = [vec![matrix(&table, 6 * hidden as u64)], vec![column(&timestep)], vec![column(&modality)]];
    let backward = [vec![column(&timestep)], vec![column(&modality)], vec![matrix(&d_out, hidden as u64); 6]];
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let declared = adaln(accumulate);
        let both = |stream: &Stream| {
            let out = call(stream, declared.forward(), &forward, &[], None, None).unwrap();
            let sums = call(stream, &all(&declared), &backward, &[("R", 9)], None, None).unwrap();
            (output::<bf16>(stream, &out[0]), output::<bf16>(stream, &sums[0]))
        };
        let expected = both(&cpu());
        for (columns, threads) in [(1, 1), (3, 2), (16, 3), (69, 1), (70, 2), (1000, 5)] {
            assert!(
                both(&Stream::cpu(Tiling::new(columns, threads).unwrap())) == expected,
                "{columns} columns, {threads} threads"
            );
        }
    }
}

#[test]
fn one_hundred_runs_are_one() {
    let mut random = Random(7);
    let token = vec![0_i64; 5000];
    let values: Vec<f32> = random.values(5000 * 4, |value| value);
    let inputs = [vec![matrix(&values, 4)], vec![column(&token)]];
    let (stream, declared) = (cpu(), segments(Accumulate::F32));
    let once = || {
        let outputs = call(&stream, declared.forward(), &inputs, &[("R", 2)], None, None).unwrap();
        output::<f32>(&stream, &outputs[0])
    };
    let expected = once();
    assert!((0..100).all(|_| once() == expected));
}

#[test]
fn a_row_depends_on_its_own_positions_alone() {
    let mut random = Random(8);
    let token: Vec<i64> = (0..3000).map(|_| random.below(4) as i64).collect();
    let values: Vec<f32> = random.values(3000 * 3, |value| value);
    let (stream, declared) = (cpu(), segments(Accumulate::F32));
    let inputs = [vec![matrix(&values, 3)], vec![column(&token)]];
    let full = call(&stream, declared.forward(), &inputs, &[("R", 4)], None, None).unwrap();
    let full = output::<f32>(&stream, &full[0]).concat();
    for row in 0..4_usize {
        let of_row: Vec<usize> = (0..3000).filter(|&s| token[s] == row as i64).collect();
        let own: Vec<f32> = of_row.iter().flat_map(|&s| values[s * 3..s * 3 + 3].to_vec()).collect();
        let own_token = vec![row as i64; of_row.len()];
        let inputs = [vec![matrix(&own, 3)], vec![column(&own_token)]];
        let alone = call(&stream, declared.forward(), &inputs, &[("R", 4)], None, None).unwrap();
        let alone = output::<f32>(&stream, &alone[0]).concat();
        assert_eq!(alone[row * 3..row * 3 + 3], full[row * 3..row * 3 + 3]);
    }
}

#[test]
fn a_position_does_not_depend_on_its_batch() {
    for positions in [255, 256, 257] {
        let timestep: Vec<i64> = (0..positions).map(|s| s % 3).collect();
        let modality: Vec<i64> = (0..positions).map(|s| s % 2).collect();
        let table: Vec<f32> = (0..9 * 6 * 2).map(|at| at as f32).collect();
        let inputs = [vec![matrix(&table, 12)], vec![column(&timestep)], vec![column(&modality)]];
        let stream = cpu();
        let outputs = call(&stream, adaln(Accumulate::F32).forward(), &inputs, &[], None, None).unwrap();
        for (chunk, found) in output::<f32>(&stream, &outputs[0]).into_iter().enumerate() {
            let row = (timestep[254] * 3 + modality[254]) as usize;
            assert_eq!(found[254 * 2..254 * 2 + 2], bits(&table[row * 12 + chunk * 2..row * 12 + chunk * 2 + 2]));
        }
    }
}
