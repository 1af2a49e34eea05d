//! Running a case on a device: one digest a schedule.

use std::collections::HashSet;

use rowloom_codegen::ir::OutputKind;
use rowloom_codegen::{Schedule, Source, generate};
use rowloom_runtime::{AnyView, Call, Device, ElementType, Error, RowPlan, Stream, Tiling, plans, run, spec};

use super::cases::Case;
use super::inputs::{self, Placed};

/// A digest and what was run for it.
pub struct Run {
    /// A schedule, how the CPU cut its work, or that indices were checked by the kernel.
    pub how: String,
    pub digest: String,
}

/// How the CPU cuts its work beside its own choice: columns a task, threads.
const TILINGS: [(u64, usize); 2] = [(3, 1), (64, 3)];

/// Every run of a case on a device.
pub fn on(device: &Device, case: &Case) -> Result<Vec<Run>, Error> {
    if *device == Device::cpu() {
        return on_cpu(case);
    }
    let mut placed = On::new(&device.stream()?, case)?;
    let schedules = placed.schedules()?;
    placed.compile(device, &schedules)?;
    let mut runs = vec![Run { how: "indices checked by the call".to_owned(), digest: placed.digest(None, false)? }];
    for schedule in schedules {
        runs.push(Run { how: schedule.to_string(), digest: placed.digest(Some(schedule), true)? });
    }
    Ok(runs)
}

/// The CPU executor's digest.
pub fn reference(case: &Case) -> Result<String, Error> {
    On::new(&Device::cpu().stream()?, case)?.digest(None, false)
}

fn on_cpu(case: &Case) -> Result<Vec<Run>, Error> {
    let mut runs = vec![Run { how: "all cores, indices checked by the call".to_owned(), digest: reference(case)? }];
    for (columns, threads) in TILINGS {
        let stream = Stream::cpu(Tiling::new(columns, threads)?);
        let how = format!("{columns} columns a task, {threads} threads");
        runs.push(Run { how, digest: On::new(&stream, case)?.digest(None, true)? });
    }
    Ok(runs)
}

/// A case with its tensors and plans on a device.
struct On<'c> {
    case: &'c Case,
    stream: Stream,
    inputs: Vec<Vec<Placed>>,
    outputs: Vec<Vec<Placed>>,
    plans: Vec<RowPlan>,
}

fn views(lists: &[Vec<Placed>]) -> Result<Vec<Vec<AnyView<'_>>>, Error> {
    lists.iter().map(|list| list.iter().map(Placed::view).collect()).collect()
}

impl<'c> On<'c> {
    fn new(stream: &Stream, case: &'c Case) -> Result<On<'c>, Error> {
        let spec = case.spec();
        let inputs = inputs::place(stream, case, &spec)?;
        let mut outputs = Vec::new();
        for output in &case.kernel.outputs {
            let (ty, rows, columns) = match output.kind {
                OutputKind::Rows(ty) => (ty, case.positions, case.hidden),
                OutputKind::Table { ty, rows } => (ty, spec.extent(rows), case.hidden * output.values.len() as u64),
            };
            let ty = ElementType::Float(spec.float(ty));
            let tensor = |_| Placed::empty(stream, ty, rows, columns, case.apart);
            outputs.push((0..output.tensors()).map(tensor).collect::<Result<Vec<_>, _>>()?);
        }
        let plans = plans(stream, &case.kernel, &views(&inputs)?, &case.named_counts())?;
        Ok(On { case, stream: stream.clone(), inputs, outputs, plans })
    }

    /// The schedules that the case asks for, the default first.
    fn schedules(&self) -> Result<Vec<Schedule>, Error> {
        let Some(arch) = self.stream.device().arch() else { return Ok(Vec::new()) };
        let kernel = &self.case.kernel;
        let spec = spec(kernel, &views(&self.inputs)?, &views(&self.outputs)?, true, arch)?;
        let mut schedules = Schedule::space(kernel, &spec);
        schedules.retain(|schedule| schedule.check(kernel, &spec).is_ok());
        if !self.case.every_schedule {
            let mut kinds = HashSet::new();
            schedules.retain(|schedule| {
                kinds.insert((schedule.positions.map(|part| part.kind), schedule.segments.map(|part| part.kind)))
            });
        }
        Ok(schedules)
    }

    /// In emulation many sources at once cost little more than one.
    fn compile(&self, device: &Device, schedules: &[Schedule]) -> Result<(), Error> {
        let Some(arch) = device.arch() else { return Ok(()) };
        let kernel = &self.case.kernel;
        let spec = spec(kernel, &views(&self.inputs)?, &views(&self.outputs)?, true, arch)?;
        // What cannot be generated is an error of its run, which names the schedule.
        let sources: Vec<Source> =
            schedules.iter().filter_map(|schedule| generate(kernel, &spec, schedule).ok()).collect();
        device.precompile(&sources.iter().collect::<Vec<_>>())
    }

    /// Of all output buffers, what lies between rows included: no byte there may change.
    fn digest(&mut self, schedule: Option<Schedule>, planned: bool) -> Result<String, Error> {
        for tensor in self.outputs.iter_mut().flatten() {
            tensor.clear(&self.stream)?;
        }
        let inputs = views(&self.inputs)?;
        let given: Vec<&RowPlan> = self.plans.iter().collect();
        let outputs = self.outputs.iter_mut().map(|list| list.iter_mut().map(Placed::view_mut).collect());
        let mut outputs: Vec<Vec<_>> = outputs.collect::<Result<_, _>>()?;
        let plans = planned.then_some(given.as_slice());
        let call = Call { inputs: &inputs, outputs: &mut outputs, plans, schedule, workspace: None };
        run(&self.stream, &self.case.kernel, call)?;
        let mut hasher = blake3::Hasher::new();
        for tensor in self.outputs.iter().flatten() {
            let bytes = tensor.bytes(&self.stream)?;
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}
