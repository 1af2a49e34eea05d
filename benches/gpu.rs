//! The H3 op on a GPU (bf16, H = 5376, nine rows, the published layout), by CUDA events: both
//! directions, the plan, and the framework path (`index_select`) beside them.
//!
//! Runs are queued behind a delay, so that a host that stalls is not in them. Between any two
//! of them memory itself is timed; the best of all its rounds is the ceiling of the table at the end.

mod device;
mod run;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput};
use half::bf16;
use rowloom::codegen::ir::Order;
use rowloom::codegen::{Accumulate, DType, IntType, Verified, Wants};
use rowloom::{AnyTensor, AnyView, AnyViewMut, Call, ElementType, Error, RowPlan, Stream, Workspace};
use rowloom_op_adaln::random::{self, Normals};
use rowloom_op_adaln::{Layout, adaln_row_gather};
use rowloom_runtime::baseline::{Baseline, Ceilings};
use rowloom_runtime::{plans, queue_plans, run as call, run_deferred, workspace_bytes};
use run::run;
use table::{Table, gb_s, percent, typical};

const POSITIONS: [u64; 3] = [4097, 32768, 131_072];
const HIDDEN: u64 = 5376;
const TIMESTEPS: u64 = 3;
const MODALITIES: u64 = 3;
const COUNTS: [(&str, u64); 1] = [("R", TIMESTEPS * MODALITIES)];
const CHUNKS: u64 = 6;

/// Of the layout and the table, as in reports.
const SEED: u64 = 11;

/// Runs behind one delay, and untimed ones before them.
const QUEUED: u64 = 100;
const WARM_UP: usize = 3;

fn main() -> ExitCode {
    let criterion = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300));
    run(criterion.measurement_time(Duration::from_millis(1500)), |criterion| match device::gpu()? {
        Some(device) => gpu(criterion, &Baseline::new(&device.stream()?)),
        None => Ok(()),
    })
}

fn gpu(criterion: &mut Criterion, baseline: &Baseline) -> Result<(), Error> {
    let mut table = Table::new(&["bf16, H = 5376, R = 9", "S", "us", "GB/s", "share", "of"]);
    for positions in POSITIONS {
        let memory = Tensors::new(baseline.stream(), positions).and_then(|tensors| {
            let ceilings = Ceilings::new(baseline, tensors.bytes())?.ok_or(Error::OnlyGpu)?;
            Ok((tensors, ceilings))
        });
        match memory {
            Ok((mut tensors, ceilings)) => {
                let mut group = criterion.benchmark_group(format!("gpu, S = {positions}"));
                group.sampling_mode(SamplingMode::Flat);
                let mut timed = Timed { baseline, group, ceilings, times: Vec::new() };
                op(&mut timed, &mut tensors)?;
                timed.finish(&tensors, &mut table)?;
            }
            Err(error) => eprintln!("left out S = {positions}: {error}"),
        }
    }
    table.print();
    Ok(())
}

/// Both directions at one S.
fn op(timed: &mut Timed<'_, '_>, tensors: &mut Tensors) -> Result<(), Error> {
    let (baseline, stream) = (timed.baseline, timed.baseline.stream());
    let (declared, bytes) = (adaln_row_gather::declaration(), Throughput::BytesDecimal(tensors.bytes()));
    let (forward, wants) = (declared.forward(), Wants::all(declared.forward()));
    let Tensors { positions, table, timestep, modality, by_position, gradient, rows } = tensors;
    let indices = [timestep.view(), modality.view()];
    let inputs = [vec![table.view()], vec![indices[0]], vec![indices[1]]];

    let plan = plans(stream, forward, &inputs, &COUNTS)?;
    let plan: Vec<&RowPlan> = plan.iter().collect();
    timed.group.throughput(bytes.clone());
    let mut workspace = workspace(stream, forward, &inputs, by_position, Some(&plan))?;
    timed.measure("forward, planned", Of::Writing, || {
        let outputs = &mut [views_mut(by_position)];
        let (plans, workspace) = (Some(&plan[..]), Some(&mut workspace));
        call(stream, forward, Call { inputs: &inputs, outputs, plans, schedule: None, workspace })
    })?;
    let mut scratch = self::workspace(stream, forward, &inputs, by_position, None)?;
    // Deferred: the same kernel as in a checked call, and nobody waits between two.
    timed.measure("forward, checked", Of::Writing, || {
        let (outputs, workspace) = (&mut [views_mut(by_position)], Some(&mut scratch));
        let call = Call { inputs: &inputs, outputs, plans: None, schedule: None, workspace };
        run_deferred(stream, forward, call).map(|pending| pending.unchecked())
    })?;
    timed.measure("forward, index_select", Of::Writing, || {
        combine(baseline, rows, indices)?;
        for (chunk, out) in (0..).zip(by_position.iter_mut()) {
            let columns = chunk * HIDDEN..(chunk + 1) * HIDDEN;
            baseline.select(&mut out.view_mut(), table.view().columns(columns)?, rows.view())?;
        }
        Ok(())
    })?;

    // What the forward wrote becomes the gradients: both at once need not fit into memory.
    for out in by_position.iter_mut() {
        baseline.fill_ones(&mut out.view_mut())?;
    }
    let cotangents: Vec<AnyView<'_>> = by_position.iter().map(AnyTensor::view).collect();
    let inputs = [vec![indices[0]], vec![indices[1]], cotangents.clone()];
    let backward = declared.backward(&wants);
    timed.group.throughput(Throughput::Elements(*positions));
    timed.measure("plan", Of::Nothing, || queue_plans(stream, &backward, &inputs, &COUNTS).map(drop))?;
    timed.group.throughput(bytes);
    for (name, accumulate) in [("backward, f32 order", Accumulate::F32), ("backward, f64 order", Accumulate::F64)] {
        let order = Order { accumulate, ..forward.order };
        let backward = declared.with_order(order)?.backward(&wants);
        let plan = plans(stream, &backward, &inputs, &COUNTS)?;
        let plan: Vec<&RowPlan> = plan.iter().collect();
        let mut workspace = self::workspace(stream, &backward, &inputs, gradient, Some(&plan))?;
        timed.measure(name, Of::Reading, || {
            let outputs = &mut [views_mut(gradient)];
            let (plans, workspace) = (Some(&plan[..]), Some(&mut workspace));
            call(stream, &backward, Call { inputs: &inputs, outputs, plans, schedule: None, workspace })
        })?;
    }
    timed.measure("backward, index_select", Of::Reading, || {
        combine(baseline, rows, indices)?;
        for sums in gradient.iter_mut() {
            sums.view_mut().fill(stream, 0)?;
            for (chunk, values) in (0..).zip(&cotangents) {
                baseline.scatter_add(&mut sums.view_mut(), chunk * HIDDEN, *values, rows.view())?;
            }
        }
        Ok(())
    })
}

/// The framework's own way to a row of each position.
fn combine(baseline: &Baseline, rows: &mut AnyTensor, [timestep, modality]: [AnyView<'_>; 2]) -> Result<(), Error> {
    rows.view_mut().fill(baseline.stream(), 0)?;
    baseline.add_index(&mut rows.view_mut(), timestep, MODALITIES)?;
    baseline.add_index(&mut rows.view_mut(), modality, 1)
}

fn workspace(
    stream: &Stream,
    kernel: &Verified,
    inputs: &[Vec<AnyView<'_>>],
    outputs: &mut [AnyTensor],
    plans: Option<&[&RowPlan]>,
) -> Result<Workspace, Error> {
    let outputs = &mut [views_mut(outputs)];
    let call = Call { inputs, outputs, plans, schedule: None, workspace: None };
    Workspace::with_bytes(stream, workspace_bytes(stream, kernel, &call)?)
}

fn views_mut(tensors: &mut [AnyTensor]) -> Vec<AnyViewMut<'_>> {
    tensors.iter_mut().map(AnyTensor::view_mut).collect()
}

/// All that a size needs.
struct Tensors {
    positions: u64,
    table: AnyTensor,
    timestep: AnyTensor,
    modality: AnyTensor,
    /// Outputs of the forward, then gradients: six (S, H).
    by_position: Vec<AnyTensor>,
    /// Of the table.
    gradient: Vec<AnyTensor>,
    /// Of the framework.
    rows: AnyTensor,
}

impl Tensors {
    fn new(stream: &Stream, positions: u64) -> Result<Tensors, Error> {
        let (table_rows, columns) = (COUNTS[0].1, CHUNKS * HIDDEN);
        let mut normals = Normals::new(SEED, random::tensor(0), 0, columns as usize);
        let mut table = Vec::with_capacity((table_rows * columns) as usize);
        for _ in 0..table_rows {
            normals.row(|_, number| table.push(bf16::from_f32(number * 0.1)));
        }
        let indices = Layout::INTERLEAVED.indices(positions, TIMESTEPS, SEED);
        let float = ElementType::Float(DType::Bf16);
        let by_position = (0..CHUNKS).map(|_| AnyTensor::uninit(stream, float, positions, HIDDEN));
        Ok(Tensors {
            positions,
            table: AnyTensor::from_slice(stream, &table, table_rows, columns)?,
            timestep: AnyTensor::from_slice(stream, &indices.timestep, positions, 1)?,
            modality: AnyTensor::from_slice(stream, &indices.modality, positions, 1)?,
            by_position: by_position.collect::<Result<_, Error>>()?,
            gradient: vec![AnyTensor::uninit(stream, float, table_rows, columns)?],
            rows: AnyTensor::uninit(stream, ElementType::Int(IntType::I64), positions, 1)?,
        })
    }

    /// Of the tensors with a row per position: what a forward writes and a backward reads.
    fn bytes(&self) -> u64 {
        self.by_position.iter().map(AnyTensor::bytes).sum()
    }
}

/// What a time is a share of.
#[derive(Clone, Copy)]
enum Of {
    Writing,
    Reading,
    Nothing,
}

/// The benchmarks of one size.
struct Timed<'b, 'c> {
    baseline: &'b Baseline,
    group: BenchmarkGroup<'c, WallTime>,
    ceilings: Ceilings,
    /// Medians in microseconds.
    times: Vec<(&'static str, Of, f64)>,
}

impl Timed<'_, '_> {
    /// Times what only queues work and allocates nothing that lasts, after a round of memory itself.
    fn measure(
        &mut self,
        name: &'static str,
        of: Of,
        mut work: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        // What fails does so here, and code is compiled.
        work()?;
        self.baseline.stream().synchronize()?;
        let (baseline, ceilings) = (self.baseline, &mut self.ceilings);
        let (mut times, mut round) = (Vec::new(), None);
        self.group.bench_function(name, |bench| {
            // Before the first run, if the command line asks for any.
            round.get_or_insert_with(|| ceilings.round(baseline));
            bench.iter_custom(|runs| {
                let mut us = 0.0;
                for first in (0..runs).step_by(QUEUED as usize) {
                    let runs = QUEUED.min(runs - first) as usize;
                    let queued = baseline.queue(WARM_UP, runs, &mut work).expect("it ran before");
                    us += queued.us.iter().sum::<f64>();
                    times.extend(queued.us);
                }
                Duration::from_secs_f64(us / 1e6)
            });
        });
        round.transpose()?;
        self.times.extend(typical(&times).map(|us| (name, of, us)));
        Ok(())
    }

    /// Adds a row for each time, now that the ceilings are known.
    fn finish(mut self, tensors: &Tensors, table: &mut Table) -> Result<(), Error> {
        self.group.finish();
        if self.times.is_empty() {
            return Ok(());
        }
        self.ceilings.round(self.baseline)?;
        let (bytes, s) = (tensors.bytes(), tensors.positions.to_string());
        let ceiling = self.ceilings.ceiling();
        for (name, us, gb_s) in [
            ("reading once", bytes as f64 / ceiling.read_gb_s / 1e3, ceiling.read_gb_s),
            ("writing once", bytes as f64 / ceiling.write_gb_s / 1e3, ceiling.write_gb_s),
            ("copying once", 2.0 * bytes as f64 / ceiling.copy_gb_s / 1e3, ceiling.copy_gb_s),
        ] {
            table.row([name.to_owned(), s.clone(), format!("{us:.1}"), format!("{gb_s:.1}"), String::new()]);
        }
        for (name, of, us) in self.times {
            let (name, s, time) = (name.to_owned(), s.clone(), format!("{us:.1}"));
            let (best, of) = match of {
                Of::Writing => (ceiling.write_gb_s, "writing once"),
                Of::Reading => (ceiling.read_gb_s, "reading once"),
                Of::Nothing => {
                    table.row([name, s, time]);
                    continue;
                }
            };
            let share = percent(bytes as f64 / us / 1e3 / best);
            table.row([name, s, time, gb_s(bytes, us), share, of.to_owned()]);
        }
        Ok(())
    }
}
