//! The schedule that runs where a call asks for none.

use rowloom_codegen::cuda::PlanShape;
use rowloom_codegen::{Choice, PlanSchedule, Schedule, Spec, Subject, Verified};
use serde::Serialize;

use super::{Found, Machine, Records};
use crate::device::{Device, Place};
use crate::engine::Engine;
use crate::error::Error;
use crate::notice;
use crate::sources;

/// A schedule, and what has chosen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<T = Choice> {
    /// The schedule.
    pub schedule: T,
    /// Why this one.
    pub by: ChosenBy,
}

/// What has chosen a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The rules that hold where nothing was measured.
    Default,
    /// A record of tuning.
    Record,
}

impl<T> Chosen<T> {
    fn map<U>(self, with: impl FnOnce(T) -> U) -> Chosen<U> {
        Chosen { schedule: with(self.schedule), by: self.by }
    }
}

impl Device {
    /// The schedule under which a call of this kernel and Spec, or this plan, runs here at
    /// `positions` when it asks for none; `None` on the CPU, which has no schedules. It stays
    /// the same until the device is closed, whatever records are added meanwhile.
    ///
    /// # Errors
    /// [`Error::Schedule`] when a declared tile leaves none.
    pub fn chosen(&self, subject: &Subject, positions: u64) -> Result<Option<Chosen>, Error> {
        let Place::Accelerator(engine) = &self.0 else { return Ok(None) };
        let chosen = match subject {
            Subject::Kernel { kernel, spec } => engine.kernel_schedule(kernel, spec, positions)?.map(Choice::Kernel),
            Subject::Plan(shape) => engine.plan_schedule(shape, positions).map(Choice::Plan),
        };
        Ok(Some(chosen))
    }
}

impl Engine {
    /// Looks for what a kernel runs under. What it gives is kept by whoever asks.
    pub(crate) fn choose_kernel(
        &self,
        kernel: &Verified,
        spec: &Spec,
        positions: u64,
    ) -> Result<Chosen<Schedule>, Error> {
        // Most kernels were never tuned.
        if self.records().has_kernel(&kernel.name, &self.accelerator.product()) {
            let subject = Subject::Kernel { kernel: kernel.clone(), spec: spec.clone() };
            if let Some(Choice::Kernel(schedule)) = self.recorded(&subject, positions) {
                return Ok(Chosen { schedule, by: ChosenBy::Record });
            }
        }
        Ok(Chosen { schedule: sources::default_schedule(kernel, spec)?, by: ChosenBy::Default })
    }

    /// The same for a plan.
    pub(crate) fn choose_plan(&self, shape: &PlanShape, positions: u64) -> Chosen<PlanSchedule> {
        match self.recorded(&Subject::Plan(shape.clone()), positions) {
            Some(Choice::Plan(schedule)) => Chosen { schedule, by: ChosenBy::Record },
            Some(Choice::Kernel(_)) | None => {
                Chosen { schedule: PlanSchedule::default_for(shape), by: ChosenBy::Default }
            }
        }
    }

    fn recorded(&self, subject: &Subject, positions: u64) -> Option<Choice> {
        match self.records().find(subject, &Machine::of(self), positions) {
            Found::Record(record) => Some(record.winner),
            Found::None => None,
            Found::Refused(refused) => {
                let topic = format!("record {:?} in {}", refused.record.key, refused.file.display());
                notice::once(&topic, &refused.to_string());
                None
            }
        }
    }

    fn records(&self) -> &Records {
        match &self.records {
            Some(records) => records,
            None => Records::of_process(),
        }
    }
}
