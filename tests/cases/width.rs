//! The full width of calls: every kernel with every type, size and way to lie of its tensors,
//! in pairs.

use rowloom::codegen::ir::Direction;
use rowloom::codegen::{Accumulate, DType, IntType, Verified};

use super::covering::pairwise;
use super::lay::Lay;
use super::problem::{Lays, Problem, column};
use super::{direction, kernels};

/// Sizes that calls are made of.
pub struct Sizes {
    /// H.
    pub hidden: &'static [u64],
    /// S.
    pub positions: &'static [u64],
    /// Row counts, multiples of 3; 1 stands for the fewest rows that the kernel can have.
    pub rows: &'static [u64],
    /// Most elements of a tensor with a row per position or of a table.
    pub elements: u64,
}

/// For emulation.
pub const SMALL: Sizes = Sizes {
    hidden: &[1, 5, 8, 40, 257, 4104],
    positions: &[1, 2, 255, 257, 600, 1031],
    rows: &[1, 3, 48, 765, 4098],
    elements: 1 << 20,
};

/// For a GPU.
pub const LARGE: Sizes = Sizes {
    hidden: &[1, 5, 8, 40, 257, 776, 4104, 5376],
    positions: &[1, 2, 255, 256, 257, 600, 1031, 4097, 16385, 65537],
    rows: &[1, 3, 9, 48, 765, 4098, 65538, 300_003],
    elements: 1 << 25,
};

/// A kernel's name and direction.
type Way = (&'static str, Direction);

fn ways() -> Vec<Way> {
    let names = ["adaln_row_gather", "row_gather", "row_scatter_sum"].into_iter().chain(kernels::NAMES);
    names.flat_map(|name| [(name, Direction::Forward), (name, Direction::Backward)]).collect()
}

/// The fewest rows of a kernel: bounds divide them.
fn unit(name: &str) -> u64 {
    match name {
        "adaln_row_gather" | "padded" => 3,
        _ => 1,
    }
}

/// The problems in which every two choices meet that can.
pub fn problems(sizes: &Sizes, seed: u64) -> impl Iterator<Item = Problem> {
    let ways = ways();
    let &Sizes { hidden, positions, rows, elements } = sizes;
    let levels = [
        ways.len(),
        DType::ALL.len(),
        IntType::ALL.len(),
        hidden.len(),
        positions.len(),
        rows.len(),
        Lay::READ.len(),
        Lay::READ.len(),
        Lay::READ.len(),
        Lay::WRITE.len(),
        2,
        2,
    ];
    let allowed = |row: &[usize]| {
        // No u8 is -1.
        let pad_fits = ways[row[0]].0 != "padded" || IntType::ALL[row[2]] != IntType::U8;
        let columns = 6 * hidden[row[3]];
        pad_fits && columns * positions[row[4]] <= elements && columns * rows[row[5]] <= elements
    };
    let rows_of_levels = pairwise(&levels, allowed, seed);
    rows_of_levels.into_iter().map(move |row| {
        let (name, way) = ways[row[0]];
        let kernel = direction(name, way, [Accumulate::F32, Accumulate::F64][row[10]]);
        let rows = rows[row[5]].max(unit(name));
        let lays = Lays {
            rows: Lay::READ[row[6]],
            tables: Lay::READ[row[7]],
            indices: Lay::READ[row[8]],
            outputs: Lay::WRITE[row[9]],
        };
        let (dtype, int) = (DType::ALL[row[1]], IntType::ALL[row[2]]);
        let mut problem =
            Problem::laid(&kernel, dtype, int, &counts(&kernel, rows), positions[row[4]], hidden[row[3]], lays);
        problem.gradient = [None, Some(DType::F32)][row[11]];
        problem
    })
}

/// Row counts of a kernel that differ, the first as given.
fn counts(kernel: &Verified, rows: u64) -> Vec<u64> {
    (0..kernel.counts.len() as u64).map(|at| rows + at).collect()
}

/// For each kind of tensor a gather and a sum whose rows of that kind are so far apart that
/// offsets leave 32 bits.
pub fn far() -> Vec<Problem> {
    let far = |set: fn(&mut Lays)| {
        let mut lays = Lays::PACKED;
        set(&mut lays);
        lays
    };
    let lays = [
        far(|lays| lays.rows = Lay::Far),
        far(|lays| lays.tables = Lay::Far),
        far(|lays| lays.indices = Lay::Far),
        far(|lays| lays.outputs = Lay::Far),
    ];
    let of = |lays: Lays| {
        ["row_gather", "row_scatter_sum"].map(|name| {
            let kernel = direction(name, Direction::Forward, Accumulate::F32);
            Problem::laid(&kernel, DType::Bf16, IntType::U8, &[530], 530, 24, lays)
        })
    };
    lays.into_iter().flat_map(of).collect()
}

/// A table of 150 000 rows, of which each is referenced at most once: a gather's backward.
pub fn rows_referenced_once(hidden: u64) -> Problem {
    let kernel = direction("row_gather", Direction::Backward, Accumulate::F32);
    let (rows, positions) = (150_000, 100_000);
    let mut problem = Problem::new(&kernel, DType::Bf16, IntType::I32, &[rows], positions, hidden);
    // 7919 is a prime that does not divide the rows.
    let index = (0..positions).map(|position| (position * 7919 % rows) as i64);
    let at = kernel.inputs.iter().position(|input| input.is_index()).expect("it has one");
    problem.inputs[at][0] = column(IntType::I32, index);
    problem
}
