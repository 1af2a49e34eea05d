//! The CPU executor on the H3 op's own sizes (S = 4097, H = 5376, bf16), beside plain copies of as
//! many bytes: on one core, and on all cores like the executor itself.
//!
//! Others use the machine too, so every run of the executor has a copy of either kind right before
//! it, and a share is the median over these pairs.

mod run;
mod table;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput};
use half::bf16;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use rowloom::{Device, Error, Tensor, Workspace};
use rowloom_op_adaln::Layout;
use rowloom_op_adaln::adaln_row_gather::{
    Cotangents, GradientsMut, Inputs, OutputsMut, Wants, backward, backward_into, forward_into, plan,
};
use run::run;
use table::{Table, gb_s, percent, typical};

const POSITIONS: u64 = 4097;
const HIDDEN: u64 = 5376;
const TIMESTEPS: u64 = 3;
const ROWS: u64 = 3 * TIMESTEPS;

/// Bytes of the six tensors with a row per position: what a forward writes and a backward reads.
const BYTES: u64 = 6 * POSITIONS * HIDDEN * 2;

fn main() -> ExitCode {
    let criterion = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500));
    run(criterion.measurement_time(Duration::from_secs(3)), cpu)
}

fn cpu(criterion: &mut Criterion) -> Result<(), Error> {
    let stream = Device::cpu().stream()?;
    let row = vec![bf16::from_f32(0.5); (ROWS * 6 * HIDDEN) as usize];
    let weights = Tensor::from_slice(&stream, &row, ROWS, 6 * HIDDEN)?;
    let indices = Layout::INTERLEAVED.indices(POSITIONS, TIMESTEPS, 11);
    let timestep = Tensor::from_slice(&stream, &indices.timestep, POSITIONS, 1)?;
    let modality = Tensor::from_slice(&stream, &indices.modality, POSITIONS, 1)?;
    let inputs = Inputs { table: weights.view(), timestep: timestep.view(), modality: modality.view() };
    let plan = plan(&stream, &inputs)?;
    let mut gradient = Tensor::<bf16>::zeros(&stream, ROWS, 6 * HIDDEN)?;
    let mut workspace = Workspace::new(&stream);
    let zeros = || Tensor::<bf16>::zeros(&stream, POSITIONS, HIDDEN);
    let mut outputs = [zeros()?, zeros()?, zeros()?, zeros()?, zeros()?, zeros()?];

    let mut group = criterion.benchmark_group("cpu");
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::BytesDecimal(BYTES));
    let table = Table::new(&["S = 4097, H = 5376, bf16", "ms", "GB/s", "of a copy on one core", "on all cores"]);
    let mut beside = Beside { group, copies: Copies::new(), table };
    beside.copies();
    let mut forward = |plan| {
        let out = outputs.each_mut().map(Tensor::view_mut);
        forward_into(&stream, &inputs, plan, OutputsMut { out }, &mut workspace)
    };
    beside.measure("forward, planned", || forward(Some(&plan)))?;
    beside.measure("forward, checked", || forward(None))?;
    // On one core: of a pool of one thread, whatever is parallel runs there.
    let one = ThreadPoolBuilder::new().num_threads(1).build();
    if let Ok(one) = &one {
        beside.measure("forward, planned, one core", || one.install(|| forward(Some(&plan))))?;
    }

    // What the forward wrote becomes the gradients: both at once are half a gigabyte more.
    let cotangents = Cotangents { out: outputs.each_ref().map(Tensor::view) };
    let mut planned = || {
        let gradients = GradientsMut { table: Some(gradient.view_mut()) };
        backward_into(&stream, &inputs, &cotangents, &plan, gradients, &mut workspace)
    };
    beside.measure("backward, planned", &mut planned)?;
    if let Ok(one) = &one {
        beside.measure("backward, planned, one core", || one.install(&mut planned))?;
    }
    beside.measure("backward, from raw indices", || {
        backward(&stream, &inputs, &cotangents, None, Wants::TABLE).map(drop)
    })?;
    beside.group.finish();
    beside.table.print();
    Ok(())
}

/// What runs beside copies.
struct Beside<'c> {
    group: BenchmarkGroup<'c, WallTime>,
    copies: Copies,
    table: Table,
}

impl Beside<'_> {
    /// The copies alone.
    fn copies(&mut self) {
        let (group, copies) = (&mut self.group, &mut self.copies);
        group.bench_function("copy on one core", |bench| bench.iter(|| copies.on_one_core()));
        group.bench_function("copy on all cores", |bench| bench.iter(|| copies.on_all_cores()));
    }

    /// Times `run`, with a copy of either kind before each run.
    fn measure(&mut self, name: &str, mut run: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        // What fails does so here, and what is allocated once is.
        run()?;
        let copies = &mut self.copies;
        let (mut times, mut of_one, mut of_all) = (Vec::new(), Vec::new(), Vec::new());
        self.group.bench_function(name, |bench| {
            bench.iter_custom(|runs| {
                let mut total = Duration::ZERO;
                for _ in 0..runs {
                    let (one, all) = (timed(|| copies.on_one_core()), timed(|| copies.on_all_cores()));
                    let time = timed(|| run().expect("it ran before"));
                    total += time;
                    times.push(time.as_secs_f64() * 1e6);
                    of_one.push(one.as_secs_f64() / time.as_secs_f64());
                    of_all.push(all.as_secs_f64() / time.as_secs_f64());
                }
                total
            });
        });
        if let (Some(us), Some(of_one), Some(of_all)) = (typical(&times), typical(&of_one), typical(&of_all)) {
            let ms = format!("{:.1}", us / 1e3);
            self.table.row([name.to_owned(), ms, gb_s(BYTES, us), percent(of_one), percent(of_all)]);
        }
        Ok(())
    }
}

/// Memory to copy.
struct Copies {
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Copies {
    fn new() -> Copies {
        let words = (BYTES / 8) as usize;
        Copies { from: vec![1; words], to: vec![2; words] }
    }

    fn on_one_core(&mut self) {
        black_box(&mut self.to).copy_from_slice(black_box(&self.from));
    }

    /// A piece a core, so that each is as large as memcpy likes them.
    fn on_all_cores(&mut self) {
        let piece = self.from.len().div_ceil(rayon::current_num_threads());
        let (to, from) = (black_box(&mut self.to), black_box(&self.from));
        to.par_chunks_mut(piece).zip(from.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
