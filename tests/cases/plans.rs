//! Plans of every shape, and what they refuse.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rowloom::codegen::cuda::{self, PlanArray, PlanShape};
use rowloom::codegen::{IntType, PlanSchedule};
use rowloom::{Device, Error, RowPlan, RowShape, Stream, Term};
use rowloom_runtime::sources;

use super::lay::{HostTensor, Lay, Placed, download};
use super::problem::column;

/// A plan's shape, its index types and its indices.
pub struct PlanCase {
    pub shape: RowShape,
    pub types: Vec<IntType>,
    pub indices: Vec<HostTensor>,
    pub lay: Lay,
}

/// How positions fall on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fall {
    /// Anywhere.
    Random,
    /// 98 of 100 on one row.
    Lopsided,
    /// All on the last row that the bounds allow.
    Last,
    /// As few as can be on each row, in no order.
    Scattered,
    /// From the last row down.
    Descending,
}

const FALLS: [Fall; 5] = [Fall::Random, Fall::Lopsided, Fall::Last, Fall::Scattered, Fall::Descending];

impl PlanCase {
    /// Random terms, factors, offset, block and pads, with at most `most_rows` rows.
    pub fn random(random: &mut ChaCha8Rng, positions: u64, most_rows: u64) -> PlanCase {
        // The bounds multiply to the rows; each factor is the product of the bounds behind it,
        // times what leaves gaps between rows.
        let term_count = random.random_range(1..=4);
        let mut most = most_rows;
        let (mut terms, mut types, mut factor) = (Vec::new(), Vec::new(), 1);
        for at in 0..term_count {
            let ty = IntType::ALL[random.random_range(0..3)];
            let widest = if at + 1 == term_count { most } else { (most as f64).powf(0.4) as u64 };
            let bound = random.random_range(1..=widest.max(1));
            let bound = if ty == IntType::U8 { bound.min(250) } else { bound };
            let pad = match random.random_range(0..3) {
                0 => None,
                _ if ty == IntType::U8 => Some(255),
                1 => Some(-1),
                _ if ty == IntType::I32 => Some(i32::MIN.into()),
                _ => Some(i64::MIN),
            };
            terms.push(Term { name: format!("index {at}"), factor, bound, pad });
            types.push(ty);
            let gap = if random.random_range(0..4) == 0 { 2 } else { 1 };
            factor *= bound * gap;
            most = (most / (bound * gap)).max(1);
        }
        terms.reverse();
        types.reverse();
        let reach: u64 = terms.iter().map(|term| term.factor * (term.bound - 1)).sum();
        let offset = if random.random_range(0..3) == 0 { random.random_range(0..100) } else { 0 };
        let slack = if random.random_range(0..3) == 0 { random.random_range(0..300) } else { 0 };
        let block = [1, 2, 16, 64, 256, 1000][random.random_range(0..6)];
        let shape = RowShape { terms, offset, rows: reach + offset + slack + 1, block };
        let fall = FALLS[random.random_range(0..FALLS.len())];
        let lay = Lay::READ[random.random_range(0..Lay::READ.len() - 1)];
        PlanCase::new(random, shape, types, positions, fall, lay)
    }

    fn new(
        random: &mut ChaCha8Rng,
        shape: RowShape,
        types: Vec<IntType>,
        positions: u64,
        fall: Fall,
        lay: Lay,
    ) -> PlanCase {
        let indices = shape.terms.iter().zip(&types).map(|(term, &ty)| {
            let last = term.bound as i64 - 1;
            let mut values: Vec<i64> = (0..positions)
                .map(|position| match fall {
                    Fall::Random => random.random_range(0..=last),
                    Fall::Lopsided if random.random_range(0..100) < 98 => last / 2,
                    Fall::Lopsided => random.random_range(0..=last),
                    Fall::Last => last,
                    Fall::Scattered | Fall::Descending => last - position as i64 % (last + 1),
                })
                .collect();
            if fall == Fall::Scattered {
                values.shuffle(random);
            }
            if let Some(pad) = term.pad {
                values.iter_mut().filter(|_| random.random_range(0..9) == 0).for_each(|value| *value = pad);
            }
            column(ty, values)
        });
        let indices = indices.collect();
        PlanCase { shape, types, indices, lay }
    }

    /// Direct rows: one i64 index of all R.
    pub fn direct(random: &mut ChaCha8Rng, positions: u64, rows: u64) -> PlanCase {
        let term = Term { name: "row".to_owned(), factor: 1, bound: rows, pad: None };
        let shape = RowShape { terms: vec![term], offset: 0, rows, block: 256 };
        PlanCase::new(random, shape, vec![IntType::I64], positions, Fall::Scattered, Lay::Packed)
    }

    /// Its shape, as the generator wants it.
    fn generated(&self) -> PlanShape {
        let term =
            |(term, &ty): (&Term, &IntType)| cuda::Term { ty, factor: term.factor, bound: term.bound, pad: term.pad };
        let RowShape { ref terms, offset, rows, block } = self.shape;
        let terms = terms.iter().zip(&self.types).map(term).collect();
        PlanShape { terms, offset, rows, block }
    }

    /// Every legal schedule; the first is the default.
    pub fn schedules(&self) -> Vec<PlanSchedule> {
        let mut legal = PlanSchedule::space(&self.generated());
        legal.retain(|schedule| self.allows(schedule));
        legal
    }

    /// Whether it is legal.
    pub fn allows(&self, schedule: &PlanSchedule) -> bool {
        schedule.check(&self.generated()).is_ok()
    }

    /// Its source.
    pub fn source(&self, schedule: PlanSchedule) -> cuda::Source {
        sources::plan(&self.generated(), Some(schedule)).expect("it is legal")
    }

    pub fn build(&self, stream: &Stream, schedule: Option<PlanSchedule>) -> Result<RowPlan, Error> {
        let placed = |index: &HostTensor| Placed::of(stream, index, self.lay);
        let placed = self.indices.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = placed.iter().map(Placed::view).collect();
        RowPlan::queue_with(stream, &self.shape, &views, schedule)?.wait()
    }

    /// Every array and number of the plan is the CPU's, under each of these schedules.
    pub fn check(&self, stream: &Stream, schedules: &[PlanSchedule]) {
        let expected = self.cpu();
        for &schedule in schedules {
            let plan = self.build(stream, Some(schedule)).unwrap();
            check_equal(&expected, &plan, stream, &format!("{schedule}: {}", self.name()));
        }
    }

    /// The plan for a batch is the CPU's plan of the indices again and again.
    pub fn check_repeat(&self, stream: &Stream, batch: usize) {
        let again = |index: &HostTensor| HostTensor {
            rows: index.rows * batch as u64,
            bytes: index.bytes.repeat(batch),
            ..*index
        };
        let (shape, types) = (self.shape.clone(), self.types.clone());
        let flat = PlanCase { shape, types, indices: self.indices.iter().map(again).collect(), lay: Lay::Packed };
        let repeated = self.build(stream, None).unwrap().repeat(stream, batch as u64).unwrap();
        check_equal(&flat.cpu(), &repeated, stream, &format!("{batch} of {}", self.name()));
    }

    fn cpu(&self) -> RowPlan {
        self.build(&cpu(), None).unwrap()
    }

    fn name(&self) -> String {
        let (shape, types, lay) = (&self.shape, &self.types, self.lay);
        format!("S = {}, {types:?}, {lay:?}, {shape:?}", self.indices[0].rows)
    }
}

fn cpu() -> Stream {
    Device::cpu().stream().unwrap()
}

fn check_equal(on_cpu: &RowPlan, plan: &RowPlan, stream: &Stream, name: &str) {
    let (expected, found) = (contents(on_cpu, &cpu()), contents(plan, stream));
    for (array, (expected, found)) in PlanArray::ALL.iter().zip(expected.0.iter().zip(&found.0)) {
        let at = expected.iter().zip(found).position(|(expected, found)| expected != found);
        let lengths = (expected.len(), found.len());
        assert!(expected == found, "{array:?} byte {at:?}, {lengths:?} bytes: {name}");
    }
    assert_eq!(expected.1, found.1, "blocks, partials, positions without a row: {name}");
}

/// All that a plan holds.
fn contents(plan: &RowPlan, stream: &Stream) -> (Vec<Vec<u8>>, [u64; 3]) {
    let array = |&array: &PlanArray| download(stream, plan.array(array)).unwrap();
    (PlanArray::ALL.iter().map(array).collect(), [plan.blocks(), plan.partials(), plan.rowless()])
}

/// `count` random plans of up to so many positions and rows, the largest of both among them.
pub fn random(count: usize, most_positions: u64, most_rows: u64, seed: u64) -> Vec<PlanCase> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut cases: Vec<PlanCase> = (0..count)
        .map(|_| {
            // As many small ones as large ones.
            let positions = (most_positions as f64).powf(random.random_range(0.0..1.0)) as u64;
            let rows = (most_rows as f64).powf(random.random_range(0.0..1.0)) as u64;
            PlanCase::random(&mut random, positions.max(1), rows.max(1))
        })
        .collect();
    // Around a tile of a sort and a block, and one position on each row.
    for positions in [1, 2, 255, 256, 257, 2047, 2048, 2049] {
        cases.push(PlanCase::random(&mut random, positions, 10));
        cases.push(PlanCase::direct(&mut random, positions, positions));
    }
    cases.push(PlanCase::direct(&mut random, most_positions, 1));
    cases.push(PlanCase::direct(&mut random, most_positions, most_positions));
    cases.push(PlanCase::direct(&mut random, 1, most_rows));
    cases
}

/// Plans of each kind of shape: one row, few and many, around a digit of 64 values, more digits than
/// one; direct rows, several terms, pads, an offset.
fn shapes() -> Vec<(RowShape, Vec<IntType>)> {
    let term = |name: &str, factor, bound, pad| Term { name: name.to_owned(), factor, bound, pad };
    let of = |terms, offset, rows, block| RowShape { terms, offset, rows, block };
    let direct = |rows, pad| of(vec![term("row", 1, rows, pad)], 0, rows, 256);
    let benchmark = vec![term("timestep", 3, 3, None), term("modality", 1, 3, None)];
    let three = vec![term("a", 40, 3, Some(-1)), term("b", 8, 4, None), term("c", 1, 8, Some(200))];
    vec![
        (direct(1, None), vec![IntType::I32]),
        (of(benchmark, 0, 9, 256), vec![IntType::I64; 2]),
        (direct(63, Some(-1)), vec![IntType::I64]),
        (direct(64, None), vec![IntType::I32]),
        (direct(65, None), vec![IntType::U8]),
        (of(three, 3, 125, 16), vec![IntType::I32, IntType::I64, IntType::U8]),
        (direct(4096, Some(-1)), vec![IntType::I32]),
        (direct(150_000, None), vec![IntType::I64]),
    ]
}

/// Each of them, of so many positions.
pub fn of_every_shape(positions: &[u64], seed: u64) -> Vec<PlanCase> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut cases = Vec::new();
    for (shape, types) in shapes() {
        for &positions in positions {
            let fall = FALLS[cases.len() % FALLS.len()];
            cases.push(PlanCase::new(&mut random, shape.clone(), types.clone(), positions, fall, Lay::Packed));
        }
    }
    cases
}

/// Numbers that no index of this type and bound may be; among them those whose product with a
/// factor wraps around 64 bits to a legal row.
fn bad_values(ty: IntType, term: &Term) -> Vec<i64> {
    // factor * value = 2^64 + something small.
    let wrapped = (1_u128 << 64).div_ceil(u128::from(term.factor)) as u64 as i64;
    let all = [
        -1,
        term.bound as i64,
        i32::MIN.into(),
        i32::MAX.into(),
        i64::MIN,
        i64::MAX,
        255,
        wrapped,
        wrapped.wrapping_neg(),
    ];
    let bad = |&value: &i64| ty.holds(value) && term.pad != Some(value) && !(0..term.bound as i64).contains(&value);
    all.into_iter().filter(bad).collect()
}

/// Every bad number in every term is the error of its position; of several the smallest
/// position's, at one position that of the term declared first. After each the next plan is right.
pub fn check_faults(stream: &Stream) {
    for types in [[IntType::I64, IntType::I64], [IntType::I32, IntType::U8], [IntType::U8, IntType::I64]] {
        let [first, second] = types;
        let pad = if second == IntType::U8 { 200 } else { -7 };
        let terms = vec![
            Term { name: "timestep".to_owned(), factor: 3, bound: 5, pad: None },
            Term { name: "modality".to_owned(), factor: 1, bound: 3, pad: Some(pad) },
        ];
        let shape = RowShape { terms, offset: 2, rows: 17, block: 256 };
        let case = |bad: &[(usize, usize, i64)]| {
            let mut values = [vec![4i64; 700], vec![2i64; 700]];
            values[1][13] = pad;
            for &(term, position, value) in bad {
                values[term][position] = value;
            }
            let [left, right] = values;
            let indices = vec![column(first, left), column(second, right)];
            PlanCase { shape: shape.clone(), types: types.to_vec(), indices, lay: Lay::Packed }
        };
        let schedules = case(&[]).schedules();
        let sources: Vec<_> = schedules.iter().map(|&schedule| case(&[]).source(schedule)).collect();
        stream.device().precompile(&sources.iter().collect::<Vec<_>>()).unwrap();
        let mut turns = schedules.iter().cycle();
        let refused = |schedule, bad: &[(usize, usize, i64)], expected: (usize, usize, i64)| {
            for stream in [stream, &cpu()] {
                let error = case(bad).build(stream, Some(schedule)).map(|_| ()).unwrap_err();
                let Error::Index { argument, position, value, bound, .. } = &error else { panic!("{error}") };
                let term = &shape.terms[expected.0];
                let expected = (&term.name, expected.1 as u64, expected.2, term.bound);
                assert_eq!((argument, *position, *value, *bound), expected, "{bad:?} on {}", stream.device());
            }
        };
        for (at, term) in shape.terms.iter().enumerate() {
            for value in bad_values(types[at], term) {
                // Another schedule for each.
                let schedule = *turns.next().expect("they go round");
                let refused = |bad: &[_], expected| refused(schedule, bad, expected);
                refused(&[(at, 699, value)], (at, 699, value));
                // The smallest position, not the first that a thread meets.
                refused(&[(at, 0, value), (1 - at, 300, 77), (at, 698, value)], (at, 0, value));
                refused(&[(1, 301, 77), (0, 301, 78)], (0, 301, 78));
                case(&[]).check(stream, &[schedule]);
            }
        }
    }
}
