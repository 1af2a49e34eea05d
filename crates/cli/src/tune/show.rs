//! `rowloom tune --show`: the records there are, and whether they are used here.

use rowloom_codegen::ir::Order;
use rowloom_codegen::spec::MAX_ROWS;
use rowloom_codegen::{Accumulate, Subject};
use rowloom_runtime::cache::Damage;
use rowloom_runtime::tuning::{For, Kept, Machine, Record, Records, one_line};
use rowloom_runtime::{Declaration, Device, gpus, registered};
use serde::Serialize;

use super::Args;
use crate::error::{Error, Result, settings};
use crate::output;
use crate::pack;

#[derive(Serialize)]
struct Shown {
    /// Whether records are used at all: not with ROWLOOM_TUNE=off.
    used: bool,
    records: Vec<Line>,
    /// Files that are no files of records.
    damaged: Vec<Damage>,
}

#[derive(Serialize)]
struct Line {
    file: String,
    r#for: For,
    /// The same in words.
    what: String,
    product: String,
    default: String,
    winner: String,
    default_us: f64,
    winner_us: f64,
    candidates: usize,
    date: String,
    /// Whether calls on this machine use it.
    usable: bool,
    /// Why not.
    reason: Option<String>,
}

/// Prints the records of the named kernels, or all.
pub fn run(args: &Args) -> Result<()> {
    let settings = settings()?;
    let (mut kept, damaged) = Records::new(&settings).all();
    super::refuse_unknown(&args.kernels, kept.iter().map(|kept| &*kept.record))?;
    kept.retain(|kept| super::is_named(&args.kernels, &kept.record));
    let machines = machines(kept.iter().map(|kept| &*kept.record));
    let machines: Vec<Machine<'_>> = machines.iter().map(Here::machine).collect();
    let kept = kept.iter();
    let shown = Shown { used: settings.tuned, records: kept.map(|kept| line(kept, &machines)).collect(), damaged };
    let text = match args.json {
        true => serde_json::to_string_pretty(&shown).map_err(Error::failed)? + "\n",
        false => text(&shown),
    };
    output::print(text.as_bytes())
}

/// How many records are used on this machine, of how many, and the files that are none.
pub fn count(records: &Records) -> (usize, usize, Vec<Damage>) {
    let (kept, damaged) = records.all();
    let machines = machines(kept.iter().map(|kept| &*kept.record));
    let machines: Vec<Machine<'_>> = machines.iter().map(Here::machine).collect();
    let usable = kept.iter().filter(|kept| reason(&kept.record, &machines).is_none()).count();
    (usable, kept.len(), damaged)
}

fn line(kept: &Kept, machines: &[Machine<'_>]) -> Line {
    let record = &*kept.record;
    let reason = reason(record, machines);
    Line {
        file: kept.file.display().to_string(),
        r#for: record.key.clone(),
        what: in_words(record),
        product: record.provenance.product.clone(),
        default: record.default.to_string(),
        winner: record.winner.to_string(),
        default_us: record.default_us,
        winner_us: record.winner_us,
        candidates: record.candidates.len(),
        date: record.date.clone(),
        usable: reason.is_none(),
        reason,
    }
}

fn text(shown: &Shown) -> String {
    let mut text = String::new();
    if !shown.used {
        text += "ROWLOOM_TUNE=off: none is used\n";
    }
    let mut file = "";
    for line in &shown.records {
        if line.file != file {
            file = &line.file;
            text += &format!("{}\n", one_line(file));
        }
        let Line { what, default, winner, default_us, winner_us, candidates, date, .. } = line;
        let date = one_line(date);
        text += &format!("  {what}\n    winner  {winner_us:.1} us  {winner}\n");
        text += &format!("    default {default_us:.1} us  {default}\n    {candidates} candidates, {date}; ");
        text += &match &line.reason {
            None => "used here\n".to_owned(),
            Some(reason) => format!("not used here: {}\n", one_line(reason)),
        };
    }
    for Damage { path, reason } in &shown.damaged {
        text += &format!("{}\n  not used: {}\n", one_line(&path.display().to_string()), one_line(reason));
    }
    if shown.records.is_empty() && shown.damaged.is_empty() {
        text += "no records; `rowloom tune KERNEL` makes some\n";
    }
    text
}

/// The emulation as a product.
const EMULATED: &str = "emulated";

/// What calls of this machine run on: its GPUs, none of which is opened, and the emulation.
pub enum Here {
    Gpu(rowloom_runtime::Gpu, String),
    Emulated(Device),
}

impl Here {
    /// As records name it.
    pub fn machine(&self) -> Machine<'_> {
        match self {
            Here::Gpu(gpu, cuda) => Machine::of_gpu(gpu, cuda),
            Here::Emulated(device) => Machine::of_device(device).expect("an emulated device has schedules"),
        }
    }
}

/// What the calls of this machine that these records may be for run on.
pub fn machines<'r>(mut records: impl Iterator<Item = &'r Record>) -> Vec<Here> {
    // Where there is no driver, there is no GPU.
    let (gpus, cuda) = gpus().unwrap_or_default();
    let gpus = gpus.into_iter().map(|gpu| Here::Gpu(gpu, cuda.clone()));
    // Opening it looks for a compiler.
    let emulated = records.any(|record| record.provenance.product == EMULATED);
    gpus.chain(emulated.then(|| Device::emulated(0).ok().map(Here::Emulated)).flatten()).collect()
}

/// Why a record is not used here; `None` when it is.
pub fn reason(record: &Record, machines: &[Machine<'_>]) -> Option<String> {
    if let Err(why) = record.check() {
        return Some(why.to_string());
    }
    let product = &record.provenance.product;
    let own: Vec<&Machine<'_>> = machines.iter().filter(|machine| machine.product == *product).collect();
    if own.is_empty() {
        let here: Vec<&str> =
            machines.iter().map(|machine| &*machine.product).filter(|name| *name != EMULATED).collect();
        let here =
            if here.is_empty() { "this machine has no GPU".to_owned() } else { format!("this is {}", here.join(", ")) };
        return Some(format!("it was made with the GPU {product}, and {here}"));
    }
    let Some(subject) = subject(record) else {
        return Some("no kernel of this program has its text".to_owned());
    };
    let reasons: Vec<String> =
        own.iter().map_while(|machine| machine.check(&subject, record).err()).map(|why| why.to_string()).collect();
    (reasons.len() == own.len()).then(|| reasons[0].clone())
}

/// What a record is for, with the type of its sums where this program has the kernel.
pub fn in_words(record: &Record) -> String {
    let subject = record.check().ok().and_then(|()| subject(record));
    record.key.in_words(subject.as_ref().and_then(For::sums))
}

/// What a record is of, if this program has it.
fn subject(record: &Record) -> Option<Subject> {
    let (name, spec) = match &record.key {
        For::Kernel { name, spec, .. } => (name, spec),
        For::Plan { shape, .. } => {
            let sizes = shape.terms.iter().flat_map(|term| [term.factor, term.bound]);
            let is_one =
                shape.block > 0 && (1..=MAX_ROWS).contains(&shape.rows) && sizes.into_iter().all(|size| size > 0);
            return is_one.then(|| Subject::Plan(shape.clone()));
        }
    };
    let declared = (registered().find(|registered| registered.name == name)?.declaration)();
    let order = declared.forward().order;
    let other = match order.accumulate {
        Accumulate::F32 => Accumulate::F64,
        Accumulate::F64 => Accumulate::F32,
    };
    let other = declared.with_order(Order { accumulate: other, ..order }).ok();
    [Some(declared), other.as_ref()].into_iter().flatten().find_map(|declaration: &Declaration| {
        let forward = declaration.forward();
        let backward = pack::wants(forward).into_iter().map(|wants| (*declaration.backward(&wants)).clone());
        let kernels = std::iter::once(forward.clone()).chain(backward);
        let subjects = kernels.filter(|kernel| spec.check(kernel).is_ok());
        let mut subjects = subjects.map(|kernel| Subject::Kernel { kernel, spec: spec.clone() });
        subjects.find(|subject| For::of(subject, spec.arch, record.positions) == record.key)
    })
}
