//! Sources that a device has loaded, in memory: each is generated, compiled and
//! loaded once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use rowloom_codegen::cuda::{self, PlanShape};
use rowloom_codegen::{Schedule, Source, Spec, Verified};

use crate::engine::Engine;
use crate::error::Error;
use crate::launch::Ready;

/// Each kernel's code for one Spec and schedule.
type Specialised = Vec<(Verified, Arc<Ready>)>;

/// Loaded code, by what asks for it.
#[derive(Default)]
pub(crate) struct Modules {
    /// Functions by the hash of their text: kernels of equal text share them.
    functions: Mutex<HashMap<[u8; 32], Vec<u64>>>,
    /// Kernels of equal Spec and schedule lie side by side; there are few.
    kernels: Mutex<HashMap<(Spec, Option<Schedule>), Specialised>>,
    plans: Mutex<HashMap<PlanShape, Arc<Ready>>>,
}

impl Engine {
    /// The code of a kernel under a schedule, or under the default one.
    pub(crate) fn kernel(
        &self,
        kernel: &Verified,
        spec: &Spec,
        schedule: Option<Schedule>,
    ) -> Result<Arc<Ready>, Error> {
        let key = (spec.clone(), schedule);
        if let Some(found) = lock(&self.modules.kernels).get(&key)
            && let Some((_, ready)) = found.iter().find(|(known, _)| known == kernel)
        {
            return Ok(ready.clone());
        }
        let misfit = |reason: String| Error::Schedule { kernel: kernel.name.clone(), reason };
        let schedule = match schedule {
            Some(schedule) => schedule,
            None => Schedule::default_for(kernel, spec)
                .ok_or_else(|| misfit("the declared tile leaves none for this call".to_owned()))?,
        };
        let source = cuda::generate(kernel, spec, &schedule).map_err(|fault| misfit(fault.to_string()))?;
        let ready = self.ready(source)?;
        let mut kernels = lock(&self.modules.kernels);
        kernels.entry(key).or_default().push((kernel.clone(), ready.clone()));
        Ok(ready)
    }

    /// The code that builds a plan.
    pub(crate) fn plan(&self, shape: &PlanShape) -> Result<Arc<Ready>, Error> {
        if let Some(ready) = lock(&self.modules.plans).get(shape) {
            return Ok(ready.clone());
        }
        let ready = self.ready(cuda::plan(shape))?;
        lock(&self.modules.plans).insert(shape.clone(), ready.clone());
        Ok(ready)
    }

    /// A source, compiled and loaded.
    pub(crate) fn ready(&self, source: Source) -> Result<Arc<Ready>, Error> {
        let hash = *source.hash().as_bytes();
        // Held while compiling, so that nothing is compiled twice.
        let mut known = lock(&self.modules.functions);
        let functions = match known.get(&hash) {
            Some(functions) => functions.clone(),
            None => known.entry(hash).or_insert(self.accelerator.load(&source)?).clone(),
        };
        Ok(Arc::new(Ready { source, functions }))
    }
}

/// A panic elsewhere leaves whole entries behind, never half of one.
fn lock<K: Eq + Hash, V>(map: &Mutex<HashMap<K, V>>) -> std::sync::MutexGuard<'_, HashMap<K, V>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}
