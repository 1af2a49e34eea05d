//! Sources that a device has loaded, in memory: each is generated, compiled and
//! loaded once, whichever thread comes first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rowloom_codegen::cuda::{self, PlanRepeat, PlanShape};
use rowloom_codegen::{Schedule, Source, Spec, Verified};

use crate::engine::Engine;
use crate::error::Error;
use crate::once::{Once, Slot, lock};
use crate::sources;

/// A source and its functions, one per entry in the order of its launches.
pub(crate) struct Ready {
    pub(crate) source: Source,
    pub(crate) functions: Vec<u64>,
}

/// A kernel's code for one Spec and schedule.
struct Specialised {
    kernel: Verified,
    /// As asked for; `None` is the default one.
    schedule: Option<Schedule>,
    ready: Arc<Slot<Arc<Ready>>>,
}

/// Loaded code, by what asks for it.
#[derive(Default)]
pub(crate) struct Modules {
    /// Functions by the hash of their text: kernels of equal text share them.
    functions: Once<[u8; 32], Vec<u64>>,
    /// Kernels of equal Spec lie side by side; there are few.
    kernels: Mutex<HashMap<Spec, Vec<Specialised>>>,
    plans: Once<PlanShape, Arc<Ready>>,
    repeats: Once<PlanRepeat, Arc<Ready>>,
}

impl Modules {
    fn slot(&self, kernel: &Verified, spec: &Spec, schedule: Option<Schedule>) -> Arc<Slot<Arc<Ready>>> {
        let mut kernels = lock(&self.kernels);
        let of_spec = match kernels.get_mut(spec) {
            Some(of_spec) => of_spec,
            None => kernels.entry(spec.clone()).or_default(),
        };
        let known = of_spec.iter().find(|known| known.schedule == schedule && known.kernel == *kernel);
        if let Some(known) = known {
            return known.ready.clone();
        }
        let ready = Arc::<Slot<Arc<Ready>>>::default();
        of_spec.push(Specialised { kernel: kernel.clone(), schedule, ready: ready.clone() });
        ready
    }

    /// Hash of every source that was asked for.
    pub(crate) fn loaded(&self) -> Vec<[u8; 32]> {
        self.functions.keys()
    }
}

impl Engine {
    /// The code of a kernel under a schedule, or under the default one. `may_load` is asked
    /// before anything is loaded.
    pub(crate) fn kernel(
        &self,
        kernel: &Verified,
        spec: &Spec,
        schedule: Option<Schedule>,
        may_load: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Arc<Ready>, Error> {
        let slot = self.modules.slot(kernel, spec, schedule);
        slot.get(|| {
            may_load()?;
            self.ready(sources::kernel(kernel, spec, schedule)?)
        })
    }

    /// The code that builds a plan.
    pub(crate) fn plan(&self, shape: &PlanShape) -> Result<Arc<Ready>, Error> {
        self.modules.plans.get(shape, || self.ready(sources::plan(shape, None)?))
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
