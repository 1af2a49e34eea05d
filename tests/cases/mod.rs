//! What the suites of every engine run: one list of kernels, Specs and schedules.
#![allow(dead_code, reason = "each suite uses its part")]

pub mod bad_indices;
pub mod covering;
pub mod gpu;
pub mod huge;
pub mod kernels;
pub mod lay;
pub mod order;
pub mod parallel;
pub mod plans;
pub mod problem;
pub mod sums_of;
pub mod width;

use std::collections::HashSet;

use rowloom::Registered;
use rowloom::codegen::cuda::{PlanRepeat, PlanShape, Term};
use rowloom::codegen::ir::{Direction, Order};
use rowloom::codegen::schedule::{PositionsKind, SegmentsKind};
use rowloom::codegen::{
    Accumulate, DType, IntType, PlanSchedule, SClass, Schedule, Source, Spec, Verified, Wants, backward, cuda, generate,
};
// Its kernels register themselves.
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
    cases.extend(forms());
    // What the first three do not have: pads, several tables, several row expressions, other types.
    for name in kernels::NAMES {
        for way in [Direction::Forward, Direction::Backward] {
            cases.extend(of_kernel(name, way, DType::F16, 9));
        }
    }
    cases
}

/// The op's forward in every form that its default does not have, and in the next one of it what
/// the op does not have: pads, and several row expressions.
fn forms() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, dtype, most) in
        [("adaln_row_gather", DType::Bf16, usize::MAX), ("padded", DType::F16, 1), ("one_table_twice", DType::F16, 1)]
    {
        for case in of_kernel(name, Direction::Forward, dtype, 9) {
            let mut forms = HashSet::from([form(&case.schedule)]);
            let mut space = Schedule::space(&case.kernel, &case.spec);
            space.retain(|schedule| {
                let few = schedule.positions.is_some_and(|part| [1, 4].contains(&part.positions));
                few && schedule.check(&case.kernel, &case.spec).is_ok() && forms.insert(form(schedule))
            });
            cases.extend(space.into_iter().take(most).map(|schedule| Case {
                name: format!("{}_{}", case.name, form(&schedule)),
                kernel: case.kernel.clone(),
                spec: case.spec.clone(),
                schedule,
            }));
        }
    }
    cases
}

/// What shapes the source of outputs with a row per position.
fn form(schedule: &Schedule) -> String {
    let part = schedule.positions.expect("it has outputs with a row per position");
    if part.persistent { "persistent".to_owned() } else { format!("{}_{}", part.kind.name(), part.positions) }
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
        ("plan_smallest_pad_r9".to_owned(), direct(IntType::I64, Some(i64::MIN), 9)),
        ("plan_u8_padded_r200".to_owned(), direct(IntType::U8, Some(255), 200)),
    ]
}

/// The first legal schedule of each kind.
pub fn plan_kinds(shape: &PlanShape) -> Vec<PlanSchedule> {
    let mut schedules = PlanSchedule::space(shape);
    let mut kinds = HashSet::new();
    schedules.retain(|schedule| schedule.check(shape).is_ok() && kinds.insert(schedule.kind));
    schedules
}

/// The sources of those plans under every legal schedule, by name.
pub fn plan_candidates() -> Vec<(String, Source)> {
    let mut candidates = Vec::new();
    for (name, shape) in plans() {
        for schedule in PlanSchedule::space(&shape) {
            match cuda::plan(&shape, &schedule) {
                Ok(source) => candidates.push((format!("{name}: {schedule}"), source)),
                Err(fault) => assert_eq!(schedule.check(&shape), Err(fault)),
            }
        }
    }
    candidates
}

/// The sources of the op's forward under every legal schedule, by name.
pub fn position_candidates() -> Vec<(String, Source)> {
    let mut candidates = Vec::new();
    for case in of_kernel("adaln_row_gather", Direction::Forward, DType::Bf16, 9) {
        for schedule in Schedule::space(&case.kernel, &case.spec) {
            if let Ok(source) = generate(&case.kernel, &case.spec, &schedule) {
                candidates.push((format!("{}: {schedule}", case.name), source));
            }
        }
    }
    candidates
}

/// The sources of all snapshots, by name.
pub fn sources() -> Vec<(String, Source)> {
    let kernels = snapshots().into_iter().map(|case| (case.name.clone(), case.source()));
    let plans = plans().into_iter().flat_map(|(name, shape)| {
        let schedules = plan_kinds(&shape);
        let source = move |schedule: PlanSchedule| {
            (format!("{name}_{}", schedule.kind.name()), cuda::plan(&shape, &schedule).expect("it is legal"))
        };
        schedules.into_iter().map(source)
    });
    let repeat = ("plan_repeat_r9".to_owned(), cuda::repeat(&PlanRepeat { rows: 9, block: 256 }));
    kernels.chain(plans).chain([repeat]).collect()
}

/// What a schedule's blocks do, whatever their sizes.
pub fn kinds_of(schedule: &Schedule) -> (Option<PositionsKind>, Option<SegmentsKind>) {
    (schedule.positions.map(|part| part.kind), schedule.segments.map(|part| part.kind))
}
