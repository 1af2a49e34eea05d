//! Every check on an implementation that is right, and on ones that are broken
//! on purpose: a check that cannot fail is no check.

use std::cell::Cell;
use std::sync::Arc;

use half::bf16;
use indicatif::ProgressBar;
use rowloom_codegen::ir::Direction;
use rowloom_codegen::{Accumulate, Arch, Choice, DType, IntType, SClass, Spec, Subject, Verified, Wants};
use rowloom_op_adaln::Layout;
use rowloom_runtime::baseline::Baseline;
use rowloom_runtime::tuning::{For, Machine, Record, Records};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Declaration, Device, Stream, allocate_outputs};
use serde_json::json;

use crate::error::Result;

use super::case::Case;
use super::clock::Clock;
use super::framework::Framework;
use super::implementation::Implementation;
use super::latency::Latency;
use super::measure::{measure_all, ordered};
use super::ours::Rowloom;
use super::placed::{Inputs, views, views_mut};
use super::protocol::Protocol;
use super::schema::{BatchInvariance, Measured};
use super::summary::summary;

/// S of the batch that is cut, of the sweep's, and the largest of accuracy's.
const FULL: u64 = 32;
const LARGEST: u64 = 530;

fn tiny() -> Protocol {
    Protocol {
        all_rows: vec![5],
        seeds: vec![3],
        full_batch: FULL,
        sub_batch_sizes: vec![1, 7],
        full_batch_seeds: vec![3],
        sweep_batch: FULL,
        batch_sizes: vec![1, 2, 9],
        positions: vec![33, LARGEST],
        layout_seed: 11,
        warm_up: 1,
        timed_runs: 2,
        repeats: 3,
    }
}

fn case() -> Case {
    let kernel = crate::kernels::find("adaln_row_gather").expect("it is linked");
    let declaration = (kernel.declaration)();
    let forward = declaration.forward();
    Case {
        forward: forward.clone().into(),
        backward: declaration.backward(&Wants::all(forward)),
        dtype: DType::Bf16,
        counts: vec![9],
        hidden: 24,
        layout: Layout::INTERLEAVED,
    }
}

fn rowloom(accumulate: Accumulate, stream: &Stream) -> Rowloom {
    let kernel = crate::kernels::find("adaln_row_gather").expect("it is linked");
    ordered("rowloom", (kernel.declaration)(), accumulate, stream).expect("a kernel pair")
}

fn measured(implementations: &[&dyn Implementation], stream: &Stream) -> Vec<Measured> {
    measured_case(implementations, &case(), stream)
}

fn measured_case(implementations: &[&dyn Implementation], case: &Case, stream: &Stream) -> Vec<Measured> {
    let baseline = Baseline::new(stream);
    measure_all(implementations, case, &baseline, &tiny(), &ProgressBar::hidden()).expect("measured").results
}

/// All differences that a report counts.
fn differences(checks: &BatchInvariance) -> [u64; 7] {
    let sums = &checks.table_gradient;
    [
        checks.all_rows.0.iter().map(|(_, rows)| rows.fwd_differ + rows.rowgrad_differ).sum(),
        checks.full_vs_sub_batches.fwd_differ + checks.full_vs_sub_batches.rowgrad_differ,
        checks.batch_size_sweep.differ,
        sums.isolated_rows_differ,
        sums.other_rows_permuted_differ,
        sums.schedules_differ,
        sums.repeats_differ,
    ]
}

/// A record of tuning for the planned backward at [`LARGEST`], and what has won.
fn record() -> (Record, String) {
    let kernel = (*case().backward).clone();
    let mut spec = Spec::contiguous(&kernel, DType::Bf16, IntType::I64, &[9], 24);
    spec.s_class = SClass::of(LARGEST, kernel.order.block);
    let subject = Subject::Kernel { kernel, spec };
    let default = subject.default_choice().expect("a default");
    let legal = |choice: &Choice| *choice != default && subject.generate(choice).is_ok();
    let winner = subject.space().into_iter().find(legal).expect("another");
    let emulation = Machine::new("emulated", None, Arch::SM_90, |_| Ok(None));
    let source = subject.generate(&winner).expect("legal");
    let record = Record {
        key: For::of(&subject, Arch::SM_90, LARGEST),
        provenance: emulation.provenance(&source).expect("no compiler"),
        positions: LARGEST,
        default,
        winner,
        default_us: 2.0,
        winner_us: 1.0,
        seconds: 1.0,
        date: "2026-11-30".to_owned(),
        candidates: Vec::new(),
    };
    (record, source.hash().to_string())
}

#[test]
fn nothing_differs_in_emulation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (record, tuned) = record();
    let records = Records::over(None, Some(folder.path()));
    records.add(&record).expect("kept");
    let device = Device::emulated_with(7, Arc::new(records)).expect("an emulated device");
    let stream = device.stream().expect("a stream");
    let (f32_order, f64_order) = (rowloom(Accumulate::F32, &stream), rowloom(Accumulate::F64, &stream));
    let both = measured(&[&f32_order, &f64_order], &stream);
    for (measured, is_tuned) in both.into_iter().zip([true, false]) {
        let checks = &measured.batch_invariance;
        assert_eq!(differences(checks), [0; 7]);
        assert!(checks.batch_invariant && checks.params_repeatable);
        assert_eq!(checks.batch_size_sweep.first_failures, []);
        assert_eq!(checks.all_rows.0[0].1.rows, 5);
        assert_eq!(checks.full_vs_sub_batches.sub_batches, 32 + 5);
        assert_eq!(checks.batch_size_sweep.comparisons, 8 * (1 + 2 + 3 + 1));
        let sums = &checks.table_gradient;
        assert_eq!((sums.isolated_rows, sums.other_rows_permuted, sums.repeats), (9, 9, 3));
        assert!(sums.schedules > 10, "{sums:?}");
        for (positions, at) in &measured.accuracy_latency.0 {
            assert_eq!(at.fwd_rel_err.0, 0.0, "{positions}");
            assert!(at.grad_rel_err.0[0].1.0 < 0.004, "{positions}");
            let Latency { schedule, schedule_from, source_hash, .. } = &at.latency;
            let is_tuned = is_tuned && *positions == LARGEST.to_string();
            let from = if is_tuned { "record" } else { "default" };
            assert_eq!(*schedule_from, json!({"forward": "default", "backward": from, "plan": "default"}));
            assert_eq!(schedule["backward"] == record.winner.to_string(), is_tuned, "{positions}");
            assert_eq!(source_hash["backward"] == *tuned, is_tuned, "{positions}");
        }
    }
}

const TWO_TABLES: &str = "\
kernel two_tables forward
order block = 256, accumulate = f32
float T
int I
rows R
rows E
input table: table<T, R, 2>
input scales: table<T, E, 1>
input at: index<I, R>
input by: index<I, E>
row r0: R = at
row r1: E = by
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[1] at r0
v2: rows<T> = gather scales[0] at r1
output out: rows<T> = [v0, v1]
output scale: rows<T> = [v2]
";

#[test]
fn summed_tables_may_have_different_row_counts() {
    let declaration = Declaration::from_ir(TWO_TABLES).expect("a kernel");
    let forward = declaration.forward();
    let (cpu, emulated) = (Device::cpu(), Device::emulated(7).expect("an emulated device"));
    for (device, counts) in [(&cpu, [8, 5]), (&cpu, [4, 9]), (&emulated, [4, 9])] {
        let stream = device.stream().expect("a stream");
        let backward = declaration.backward(&Wants::all(forward));
        let case = Case { forward: forward.clone().into(), backward, counts: counts.to_vec(), ..case() };
        let ours = ordered("rowloom", &declaration, Accumulate::F32, &stream).expect("a kernel pair");
        let framework = Framework::new(&case, &stream).ok();
        assert_eq!(framework.is_some(), *device == cpu, "it does not run emulated");
        let mut implementations: Vec<&dyn Implementation> = vec![&ours];
        implementations.extend(framework.iter().map(|framework| framework as &dyn Implementation));
        for measured in measured_case(&implementations, &case, &stream) {
            let sums = &measured.batch_invariance.table_gradient;
            let most = counts.into_iter().max().expect("a count");
            assert_eq!((sums.isolated_rows, sums.isolated_rows_differ), (most, 0), "{device:?} {counts:?}");
            assert_eq!((sums.repeats, sums.repeats_differ), (3, 0), "{device:?} {counts:?}");
        }
    }
}

/// What is wrong with an implementation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Outputs of small calls have another bit at their first position.
    SizeMatters,
    /// Small calls write nothing.
    Unwritten,
    /// Sums take in what other rows' positions are.
    OthersMatter,
    /// One schedule has another bit.
    OneSchedule,
    /// Every third call has another bit.
    SomeCalls,
    /// Equal positions give unequal outputs in one place.
    OneWrongNumber,
    /// One output is a NaN.
    NoNumber,
}

/// rowloom with a fault.
struct Broken {
    inner: Rowloom,
    stream: Stream,
    fault: Fault,
    calls: Cell<u64>,
}

impl Broken {
    /// Flips bits of the first element of the first rows of a tensor, or makes NaNs of them.
    fn spoil(&self, tensor: &mut AnyViewMut<'_>, rows: u64, bits: u16) {
        let view = tensor.as_view();
        let (all, columns) = (view.row_count(), view.column_count());
        let mut numbers: Vec<bf16> = view.to_vec(&self.stream).expect("numbers");
        for row in 0..rows {
            let number = &mut numbers[(row * columns) as usize];
            let flipped = bf16::from_bits(number.to_bits() ^ bits);
            *number = if self.fault == Fault::NoNumber { bf16::NAN } else { flipped };
        }
        let numbers = AnyTensor::from_slice(&self.stream, &numbers, all, columns).expect("a tensor");
        tensor.copy_from(&self.stream, numbers.view()).expect("copied");
    }
}

impl Implementation for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn source(&self) -> String {
        "broken on purpose".to_owned()
    }

    fn kernel(&self, direction: Direction) -> &Verified {
        self.inner.kernel(direction)
    }

    fn run<'t>(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'t>>],
        outputs: &mut [Vec<AnyViewMut<'t>>],
        schedule: Option<usize>,
    ) -> Result<()> {
        let index = inputs.iter().find(|views| views[0].column_count() == 1).expect("an index")[0];
        let small = index.row_count() < 5;
        if self.fault == Fault::Unwritten && small {
            return Ok(());
        }
        self.inner.run(direction, inputs, outputs, schedule)?;
        self.calls.set(self.calls.get() + 1);
        let tensor = &mut outputs[0][0];
        let rows = if direction == Direction::Backward { tensor.as_view().row_count() } else { 1 };
        let forward = direction == Direction::Forward;
        let (hit, rows, bits) = match self.fault {
            Fault::Unwritten => (false, 0, 0),
            Fault::SizeMatters => (forward && small, rows, 1),
            Fault::OthersMatter => {
                let positions = index.to_vec::<i64>(&self.stream).expect("numbers");
                let sum = (1u64..).zip(positions).map(|(at, index)| at * index as u64).sum::<u64>();
                (!forward, rows, (sum % 16) as u16)
            }
            Fault::OneSchedule => (!forward && schedule == Some(0), 1, 0x8000),
            Fault::SomeCalls => (!forward && self.calls.get().is_multiple_of(3), 1, 1),
            Fault::OneWrongNumber => (forward && index.row_count() == LARGEST, 1, 0x4000),
            Fault::NoNumber => (index.row_count() == LARGEST, 1, 0),
        };
        if hit {
            self.spoil(tensor, rows, bits);
        }
        Ok(())
    }

    fn schedules(
        &self,
        direction: Direction,
        inputs: &[Vec<AnyView<'_>>],
        outputs: &[Vec<AnyView<'_>>],
    ) -> Result<usize> {
        self.inner.schedules(direction, inputs, outputs)
    }

    fn latency(&self, _: &Case, _: u64, _: &Clock<'_>) -> Result<Latency> {
        Ok(Latency::default())
    }
}

fn broken(fault: Fault, stream: &Stream) -> Measured {
    let inner = rowloom(Accumulate::F32, stream);
    let broken = Broken { inner, stream: stream.clone(), fault, calls: Cell::new(0) };
    measured(&[&broken], stream).remove(0)
}

#[test]
fn each_check_finds_what_it_is_for() {
    let stream = Device::cpu().stream().expect("a CPU");
    for (fault, found) in [
        (Fault::SizeMatters, [true, true, true, false, false, false, false]),
        (Fault::Unwritten, [true, true, true, false, false, false, false]),
        (Fault::OthersMatter, [false, false, false, true, true, false, false]),
        (Fault::OneSchedule, [false, false, false, false, false, true, false]),
        (Fault::OneWrongNumber, [false; 7]),
    ] {
        let measured = broken(fault, &stream);
        let checks = &measured.batch_invariance;
        assert_eq!(differences(checks).map(|count| count > 0), found, "{fault:?}: {checks:?}");
        assert_eq!(checks.batch_invariant, !found.contains(&true), "{fault:?}");
        assert_eq!(checks.batch_size_sweep.first_failures.is_empty(), !found[2], "{fault:?}");
        let wrong = measured.accuracy_latency.0.iter().any(|(_, at)| at.fwd_rel_err.0 > 0.0);
        assert_eq!(wrong, fault == Fault::OneWrongNumber, "{fault:?}");
    }
    let checks = broken(Fault::SomeCalls, &stream).batch_invariance;
    assert_eq!(checks.table_gradient.repeats_differ, 1, "{checks:?}");
    assert!(!checks.params_repeatable && !checks.batch_invariant);
}

#[test]
fn differences_on_a_device_are_found_there() {
    let stream = Device::emulated(7).expect("an emulated device").stream().expect("a stream");
    let checks = broken(Fault::SizeMatters, &stream).batch_invariance;
    let [alone, pieces, sweep, ..] = differences(&checks);
    // Every batch of one position; of the pieces those of one and the last, of four; every probe
    // alone, and first of two.
    assert_eq!((alone, pieces, sweep), (5, 32 + 1, 8 * 2), "{checks:?}");
    let failure = checks.batch_size_sweep.first_failures[1];
    assert_eq!((failure.seed, failure.batch, failure.position, failure.row), (3, 2, 0, 0));
}

#[test]
fn an_error_that_is_no_number_shows_in_the_file_and_the_table() {
    let stream = Device::cpu().stream().expect("a CPU");
    let measured = broken(Fault::NoNumber, &stream);
    let result = serde_json::to_value(&measured).expect("JSON");
    let at = &result["accuracy_latency"][LARGEST.to_string()];
    assert_eq!((&at["fwd_rel_err"], &at["grad_rel_err"]["table"]), (&"NaN".into(), &"NaN".into()), "{at}");
    let text = summary(&serde_json::json!({"results": {"plain": {"broken": result}}}), None);
    for line in ["fwd_rel_err", "grad_rel_err"].map(|key| format!("S = {LARGEST}: {key}")) {
        let found = text.lines().find(|found| found.starts_with(&line));
        assert!(found.is_some_and(|found| found.ends_with(" NaN")), "{text}");
    }
}

#[test]
fn a_schedule_that_there_is_not_is_never_the_default() {
    let (cpu, emulated) = (Device::cpu(), Device::emulated(7).expect("an emulated device"));
    for stream in [cpu, emulated].map(|device| device.stream().expect("a stream")) {
        let case = case();
        let kernel = case.kernel(Direction::Backward);
        let batch = case.batch(kernel, 5, 3, 0..case.hidden).expect("a batch");
        let inputs = Inputs::place(&stream, &batch).expect("inputs");
        let inputs = inputs.views().expect("views");
        let mut outputs =
            allocate_outputs(&stream, kernel, &inputs, &case.named_counts(kernel), None).expect("outputs");
        let mut implementations: Vec<Box<dyn Implementation>> = vec![Box::new(rowloom(Accumulate::F32, &stream))];
        if let Ok(framework) = Framework::new(&case, &stream) {
            implementations.push(Box::new(framework));
        }
        for implementation in implementations {
            let count = implementation.schedules(Direction::Backward, &inputs, &views(&outputs)).expect("schedules");
            let mut run = |schedule| {
                implementation.run(Direction::Backward, &inputs, &mut views_mut(&mut outputs), Some(schedule))
            };
            for schedule in (0..count).rev().take(1) {
                run(schedule).expect("the last one runs");
            }
            let refused = run(count).expect_err("one too many").to_string();
            assert!(refused.contains(&format!("has {count} schedules")), "{}: {refused}", implementation.name());
        }
    }
}
