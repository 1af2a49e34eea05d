//! How long a process takes to its first result, where its code came from, and
//! what a planned launch costs the host. Run it three times on a GPU:
//!
//! ```console
//! $ export ROWLOOM_CACHE_DIR=$(mktemp -d)
//! $ first_result                                             # nothing there: NVRTC compiles
//! $ first_result                                             # from the disk cache
//! $ rowloom pack adaln_row_gather --dtype bf16 --rows 9 --arch sm_90 --out pack
//! $ ROWLOOM_PACK=pack ROWLOOM_JIT=off ROWLOOM_NVRTC=/none first_result   # without NVRTC
//! ```
//!
//! Times are milliseconds since the step before unless their names say more.
//! On a CPU, where a call computes before it returns, a launch is the whole work.
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use half::bf16;
use rowloom::cache::CodeCache;
use rowloom::{Device, RowPlan, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather::{Inputs, OutputsMut, forward_into, forward_workspace_bytes};
use serde_json::{Value, json};

/// T = 3 timesteps and 3 modalities.
const ROWS: u64 = 9;

/// Launches between two waits: fewer than a GPU's queue holds.
const BURST: usize = 50;

fn main() -> ExitCode {
    let start = Instant::now();
    match measure(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(start: Instant) -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read()?;
    let (positions, hidden) = (arguments.positions, arguments.hidden);
    let mut step = Steps { start, last: start, times: serde_json::Map::new() };

    let device: Device = arguments.device.parse()?;
    let stream = device.stream()?;
    step.done("context_ms");
    let context = Instant::now();

    let table: Vec<bf16> = (0..ROWS * 6 * hidden).map(|at| bf16::from_f32((at % 251) as f32)).collect();
    let timestep: Vec<i64> = (0..positions as i64).map(|at| at * 7 % 3).collect();
    let modality: Vec<i64> = (0..positions as i64).map(|at| (at * 5 / 3 + 1) % 3).collect();
    let table_there = Tensor::from_slice(&stream, &table, ROWS, 6 * hidden)?;
    let timestep_there = Tensor::from_slice(&stream, &timestep, positions, 1)?;
    let modality_there = Tensor::from_slice(&stream, &modality, positions, 1)?;
    let mut outputs = Vec::new();
    for _ in 0..6 {
        outputs.push(Tensor::<bf16>::zeros(&stream, positions, hidden)?);
    }
    let mut outputs: [Tensor<bf16>; 6] = outputs.try_into().map_err(|_| "six were made")?;
    let mut workspace = Workspace::new(&stream);
    let (timesteps, modalities) = (timestep_there.view(), modality_there.view());
    let inputs = Inputs { table: table_there.view(), timestep: timesteps, modality: modalities };
    stream.synchronize()?;
    step.done("tensors_ms");

    // Checked: it waits, since it must say whether the indices were right.
    workspace.reserve(forward_workspace_bytes(&stream, &inputs, None, views(&mut outputs))?)?;
    forward_into(&stream, &inputs, None, views(&mut outputs), &mut workspace)?;
    step.done("first_call_ms");
    step.times.insert("context_to_first_result_ms".to_owned(), ms(context.elapsed()));
    step.times.insert("start_to_first_result_ms".to_owned(), ms(start.elapsed()));

    let plan = RowPlan::affine(&stream, &[(timesteps.any(), 3, 3), (modalities.any(), 1, 3)])?;
    step.done("first_plan_ms");
    workspace.reserve(forward_workspace_bytes(&stream, &inputs, &plan, views(&mut outputs))?)?;
    forward_into(&stream, &inputs, &plan, views(&mut outputs), &mut workspace)?;
    stream.synchronize()?;
    step.done("first_planned_ms");

    let mut launches = Vec::new();
    while launches.len() < arguments.launches {
        for _ in 0..BURST.min(arguments.launches - launches.len()) {
            let into = views(&mut outputs);
            let start = Instant::now();
            forward_into(&stream, &inputs, &plan, into, &mut workspace)?;
            launches.push(start.elapsed());
        }
        stream.synchronize()?;
    }
    launches.sort_unstable();
    let us = |share: f64| launches[((launches.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;

    for (chunk, output) in outputs.iter().enumerate() {
        let last = positions - 1;
        let row = (timestep[last as usize] * 3 + modality[last as usize]) as u64;
        let from = (row * 6 + chunk as u64) * hidden;
        let found = output.view().rows(last..positions)?.to_vec(&stream)?;
        if found != table[from as usize..(from + hidden) as usize] {
            return Err(format!("chunk {chunk} of the last position is wrong").into());
        }
    }
    let cache = CodeCache::of_process();
    let result = json!({
        "device": device.name(),
        "product": device.product(),
        "driver": device.driver(),
        "positions": positions,
        "hidden": hidden,
        "steps": step.times,
        "planned_launch_us": { "median": us(0.5), "p99": us(0.99), "launches": launches.len() },
        "code": cache.lookups(),
        "cache": cache.stats(),
    });
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}

fn views(outputs: &mut [Tensor<bf16>; 6]) -> OutputsMut<'_, bf16> {
    OutputsMut { out: outputs.each_mut().map(Tensor::view_mut) }
}

/// What the command line asks for.
struct Arguments {
    device: String,
    positions: u64,
    hidden: u64,
    launches: usize,
}

impl Arguments {
    fn read() -> Result<Arguments, Box<dyn Error>> {
        let mut arguments = Arguments { device: "cuda:0".to_owned(), positions: 4097, hidden: 5376, launches: 2000 };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            match &*name {
                "--device" => arguments.device = value,
                "--positions" => arguments.positions = at_least_one(&name, &value)?,
                "--hidden" => arguments.hidden = at_least_one(&name, &value)?,
                "--launches" => arguments.launches = at_least_one(&name, &value)? as usize,
                _ => {
                    return Err(format!("`{name}`: write --device, --positions, --hidden or --launches").into());
                }
            }
        }
        Ok(arguments)
    }
}

fn at_least_one(name: &str, value: &str) -> Result<u64, String> {
    value.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{name} takes a number, not `{value}`"))
}

/// Times of what was done in order.
struct Steps {
    start: Instant,
    last: Instant,
    times: serde_json::Map<String, Value>,
}

impl Steps {
    fn done(&mut self, name: &str) {
        let now = Instant::now();
        self.times.insert(name.to_owned(), ms(now - self.last));
        self.last = now;
        self.times.insert("total_ms".to_owned(), ms(now - self.start));
    }
}

fn ms(time: Duration) -> Value {
    json!(time.as_secs_f64() * 1e3)
}
