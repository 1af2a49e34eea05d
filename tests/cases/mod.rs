//! What the suites of every engine run: one list of kernels, Specs and schedules.
#![allow(dead_code, reason = "each suite uses its part")]

pub mod gpu;
pub mod kernels;
pub mod problem;
pub mod sums_of;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rowloom::{AnyTensor, Error, Registered, RowPlan, RowShape, Stream};
// Its kernels register themselves.
use rowloom::codegen::cuda::{PlanArray, PlanShape, Term};
use rowloom::codegen::ir::{Direction, Order};
use rowloom::codegen::{
    Accumulate, DType, IntType, SClass, Schedule, Source, Spec, Verified, Wants, backward, cuda, generate,
};
use rowloom_op_adaln as _;

/// H of the snapshots: MiniMax-H3's.
pub const HIDDEN: u64 = 5376;

/// One source.
pub struct Case {
    /// Unique; also the snapshot's name.
    pub name: String,
    pub kernel: Verified,
    pub spec: Spec,
    pub schedule: Schedule,
}

impl Case {
    pub fn source(&self) -> Source {
        generate(&self.kernel, &self.spec, &self.schedule).expect("the case is legal")
    }
}

/// A registered kernel of this name.
pub fn registered(name: &str) -> &'static Registered {
    rowloom::registered().find(|kernel| kernel.name == name).expect("it is declared")
}

/// A kernel's direction under an accumulator.
pub fn direction(name: &str, direction: Direction, accumulate: Accumulate) -> Verified {
    let declared = (registered(name).declaration)();
    let order = Order { accumulate, ..declared.forward().order };
    let declared = declared.with_order(order).expect("an accumulator is any kernel's");
    match direction {
        Direction::Forward => declared.forward().clone(),
        Direction::Backward => backward(declared.forward(), &Wants::all(declared.forward())),
    }
}

/// Every op × direction × dtype × small, benchmark and large R × S class × mode × accumulator
/// that changes the text, each with its default schedule.
pub fn snapshots() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in ["adaln_row_gather", "row_gather", "row_scatter_sum"] {
        for way in [Direction::Forward, Direction::Backward] {
            for dtype in [DType::F32, DType::Bf16] {
                // 3 does not divide 4096.
                let large = if name == "adaln_row_gather" { 4098 } else { 4096 };
                for rows in [3, 9, large] {
                    cases.extend(of_kernel(name, way, dtype, rows));
                }
            }
        }
    }
    // What the first three do not have: pads, several tables, several row expressions, other types.
    for name in kernels::NAMES {
        for way in [Direction::Forward, Direction::Backward] {
            cases.extend(of_kernel(name, way, DType::F16, 9));
        }
    }
    cases
}

fn of_kernel(name: &str, way: Direction, dtype: DType, rows: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for accumulate in [Accumulate::F32, Accumulate::F64] {
        let kernel = direction(name, way, accumulate);
        let sums = kernel.sums();
        if !sums && accumulate == Accumulate::F64 {
            continue;
        }
        // A gather's text depends on the mode, a sum's on the class of S.
        let modes: &[(bool, SClass)] = if sums {
            &[(true, SClass::OneBlock), (true, SClass::Short), (true, SClass::Long)]
        } else {
            &[(true, SClass::Long), (false, SClass::Long)]
        };
        for &(planned, s_class) in modes {
            let counts = vec![rows; kernel.counts.len()];
            let mut spec = Spec::contiguous(&kernel, dtype, IntType::I64, &counts, HIDDEN);
            spec.planned = planned;
            spec.s_class = s_class;
            let mode = if planned { "planned" } else { "checked" };
            let class = match s_class {
                SClass::OneBlock => "one_block",
                SClass::Short => "short",
                SClass::Long => "long",
            };
            let tail = if sums { format!("{class}_{accumulate}") } else { mode.to_owned() };
            let schedule = Schedule::default_for(&kernel, &spec).expect("a default exists");
            cases.push(Case {
                name: format!("{name}_{way}_{dtype}_r{rows}_{tail}"),
                kernel: kernel.clone(),
                spec,
                schedule,
            });
        }
    }
    cases
}

/// Plans of the benchmark's rows, of many rows, and of each index type with a pad.
pub fn plans() -> Vec<(String, PlanShape)> {
    let adaln = |rows: u64| {
        let term = |factor, bound| Term { ty: IntType::I64, factor, bound, pad: None };
        PlanShape { terms: vec![term(3, rows / 3), term(1, 3)], offset: 0, rows, block: 256 }
    };
    let direct = |ty, pad, rows| PlanShape {
        terms: vec![Term { ty, factor: 1, bound: rows, pad }],
        offset: 0,
        rows,
        block: 256,
    };
    vec![
        ("plan_r3".to_owned(), adaln(3)),
        ("plan_r9".to_owned(), adaln(9)),
        ("plan_r4098".to_owned(), adaln(4098)),
        ("plan_i32_padded_r4096".to_owned(), direct(IntType::I32, Some(-1), 4096)),
        ("plan_u8_padded_r200".to_owned(), direct(IntType::U8, Some(255), 200)),
    ]
}

/// The sources of all snapshots, by name.
pub fn sources() -> Vec<(String, Source)> {
    let kernels = snapshots().into_iter().map(|case| (case.name.clone(), case.source()));
    kernels.chain(plans().into_iter().map(|(name, shape)| (name, cuda::plan(&shape)))).collect()
}

/// Random indices of a plan, with its pads.
pub fn plan_indices(shape: &PlanShape, positions: u64) -> Vec<problem::HostTensor> {
    let mut random = ChaCha8Rng::seed_from_u64(positions);
    let terms = shape.terms.iter();
    terms.map(|term| problem::indices(&mut random, term.ty, positions, term.bound, term.pad)).collect()
}

/// The plan of a shape on a device.
pub fn build_plan(stream: &Stream, shape: &PlanShape, indices: &[problem::HostTensor]) -> Result<RowPlan, Error> {
    let term = |(at, term): (usize, &Term)| rowloom::Term {
        name: format!("index {at}"),
        factor: term.factor,
        bound: term.bound,
        pad: term.pad,
    };
    let rows = RowShape {
        terms: shape.terms.iter().enumerate().map(term).collect(),
        offset: shape.offset,
        rows: shape.rows,
        block: shape.block,
    };
    let tensors = indices.iter().map(|index| index.upload(stream)).collect::<Result<Vec<_>, Error>>()?;
    let views: Vec<_> = tensors.iter().map(AnyTensor::view).collect();
    RowPlan::build(stream, &rows, &views)
}

/// Every array of every plan is the same on two devices, at each of these S.
pub fn check_plans(left: &Stream, right: &Stream, sizes: &[u64]) {
    for (name, shape) in plans() {
        for &positions in sizes {
            let indices = plan_indices(&shape, positions);
            let arrays = |stream: &Stream| {
                let plan = build_plan(stream, &shape, &indices).unwrap();
                let arrays = PlanArray::ALL.map(|array| problem::download(stream, plan.array(array)).unwrap());
                (arrays, plan.blocks(), plan.partials(), plan.rowless())
            };
            assert!(arrays(left) == arrays(right), "{name} at S = {positions}");
        }
    }
}
