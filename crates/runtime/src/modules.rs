//! Sources that a device has loaded, in memory: each is generated, compiled and
//! loaded once, whichever thread comes first.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use rowloom_codegen::cuda::{self, PlanRepeat, PlanShape};
use rowloom_codegen::{PlanSchedule, Schedule, Source, Spec, Verified};

use crate::engine::Engine;
use crate::error::Error;
use crate::once::{Once, Slot, lock};
use crate::sources;
use crate::tuning::{Bucket, Chosen};

/// A source and its functions, one per entry in the order of its launches.
pub(crate) struct Ready {
    pub(crate) source: Source,
    pub(crate) functions: Vec<u64>,
}

/// A kernel's code for one Spec.
struct Specialised {
    kernel: Verified,
    /// What runs where no schedule is asked for, by S.
    chosen: Vec<(Bucket, Arc<Slot<Chosen<Schedule>>>)>,
    code: Vec<(Schedule, Arc<Slot<Arc<Ready>>>)>,
}

/// Loaded code, by what asks for it.
#[derive(Default)]
pub(crate) struct Modules {
    /// Functions by the hash of their text: kernels of equal text share them.
    functions: Once<[u8; 32], Vec<u64>>,
    /// Kernels of equal Spec lie side by side; there are few.
    kernels: Mutex<HashMap<Spec, Vec<Specialised>>>,
    plan_choices: Once<(PlanShape, Bucket), Chosen<PlanSchedule>>,
    plans: Once<(PlanShape, PlanSchedule), Arc<Ready>>,
    repeats: Once<PlanRepeat, Arc<Ready>>,
}

impl Modules {
    /// What is known of a kernel at a Spec, under the lock of all.
    fn with<T>(&self, kernel: &Verified, spec: &Spec, body: impl FnOnce(&mut Specialised) -> T) -> T {
        let mut kernels = lock(&self.kernels);
        let of_spec = match kernels.get_mut(spec) {
            Some(of_spec) => of_spec,
            None => kernels.entry(spec.clone()).or_default(),
        };
        let at = of_spec.iter().position(|known| known.kernel == *kernel).unwrap_or_else(|| {
            of_spec.push(Specialised { kernel: kernel.clone(), chosen: Vec::new(), code: Vec::new() });
            of_spec.len() - 1
        });
        body(&mut of_spec[at])
    }

    /// Hash of every source that was asked for.
    pub(crate) fn loaded(&self) -> Vec<[u8; 32]> {
        self.functions.keys()
    }
}

impl Engine {
    /// The code of a kernel under a schedule, or under the one that is chosen for `positions`.
    /// `may_load` is asked before anything is loaded.
    pub(crate) fn kernel(
        &self,
        kernel: &Verified,
        spec: &Spec,
        positions: u64,
        schedule: Option<Schedule>,
        may_load: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Arc<Ready>, Error> {
        // One look where all is known: calls that are prepared each time come here.
        let known = self.modules.with(kernel, spec, |known| {
            let mut chosen = || slot(&mut known.chosen, Bucket::of(positions)).peek();
            let schedule = schedule.or_else(|| Some(chosen()?.schedule))?;
            Some((schedule, slot(&mut known.code, schedule)))
        });
        let (schedule, slot) = match known {
            Some(known) => known,
            None => {
                let schedule = self.kernel_schedule(kernel, spec, positions)?.schedule;
                (schedule, self.modules.with(kernel, spec, |known| slot(&mut known.code, schedule)))
            }
        };
        slot.get(|| {
            may_load()?;
            self.ready(sources::kernel(kernel, spec, Some(schedule))?)
        })
    }

    /// The schedule of a kernel where none is asked for. Looked up once for each bucket of S.
    pub(crate) fn kernel_schedule(
        &self,
        kernel: &Verified,
        spec: &Spec,
        positions: u64,
    ) -> Result<Chosen<Schedule>, Error> {
        let slot = self.modules.with(kernel, spec, |known| slot(&mut known.chosen, Bucket::of(positions)));
        slot.get(|| self.choose_kernel(kernel, spec, positions))
    }

    /// The code that builds a plan under a schedule, or under the one that is chosen for `positions`.
    pub(crate) fn plan(
        &self,
        shape: &PlanShape,
        positions: u64,
        schedule: Option<PlanSchedule>,
    ) -> Result<Arc<Ready>, Error> {
        let schedule = schedule.unwrap_or_else(|| self.plan_schedule(shape, positions).schedule);
        let make = || self.ready(sources::plan(shape, Some(schedule))?);
        self.modules.plans.get(&(shape.clone(), schedule), make)
    }

    /// The schedule of a plan where none is asked for.
    pub(crate) fn plan_schedule(&self, shape: &PlanShape, positions: u64) -> Chosen<PlanSchedule> {
        let choose = || Ok::<_, Infallible>(self.choose_plan(shape, positions));
        let Ok(chosen) = self.modules.plan_choices.get(&(shape.clone(), Bucket::of(positions)), choose);
        chosen
    }

    /// The code that repeats a plan.
    pub(crate) fn plan_repeat(&self, shape: &PlanRepeat) -> Result<Arc<Ready>, Error> {
        self.modules.repeats.get(shape, || self.ready(cuda::repeat(shape)))
    }

    /// A source, compiled and loaded.
    pub(crate) fn ready(&self, source: Source) -> Result<Arc<Ready>, Error> {
        let hash = *source.hash().as_bytes();
        let functions = self.modules.functions.get(&hash, || self.accelerator.load(&source))?;
        Ok(Arc::new(Ready { source, functions }))
    }
}

/// The slot of a key in a short list.
fn slot<K: PartialEq, V>(slots: &mut Vec<(K, Arc<Slot<V>>)>, key: K) -> Arc<Slot<V>> {
    if let Some((_, slot)) = slots.iter().find(|(known, _)| *known == key) {
        return slot.clone();
    }
    let slot = Arc::new(Slot::default());
    slots.push((key, slot.clone()));
    slot
}
