//! What schedules are chosen for: a kernel at one Spec, or a plan.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cuda::{self, GenerateError, PlanShape, Source};
use crate::ir::Verified;
use crate::schedule::{PlanSchedule, Schedule, ScheduleFault};
use crate::spec::Spec;

/// What has a space of schedules.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a search has one")]
pub enum Subject {
    /// A kernel, forward or backward, at one Spec.
    Kernel {
        /// The kernel.
        kernel: Verified,
        /// Its Spec.
        spec: Spec,
    },
    /// A plan. It belongs to no kernel.
    Plan(PlanShape),
}

/// A schedule of a [`Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Of a kernel.
    Kernel(Schedule),
    /// Of a plan.
    Plan(PlanSchedule),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Kernel(schedule) => schedule.fmt(f),
            Choice::Plan(schedule) => schedule.fmt(f),
        }
    }
}

impl Subject {
    /// Every candidate, in a fixed order, legal or not.
    pub fn space(&self) -> Vec<Choice> {
        match self {
            Subject::Kernel { kernel, spec } => Schedule::space(kernel, spec).into_iter().map(Choice::Kernel).collect(),
            Subject::Plan(shape) => PlanSchedule::space(shape).into_iter().map(Choice::Plan).collect(),
        }
    }

    /// What runs when nothing was tuned; `None` when a declared tile leaves none.
    pub fn default_choice(&self) -> Option<Choice> {
        match self {
            Subject::Kernel { kernel, spec } => Schedule::default_for(kernel, spec).map(Choice::Kernel),
            Subject::Plan(shape) => Some(Choice::Plan(PlanSchedule::default_for(shape))),
        }
    }

    /// The source under a choice.
    ///
    /// # Errors
    /// [`GenerateError`]: why the choice is not legal here.
    pub fn generate(&self, choice: &Choice) -> Result<Source, GenerateError> {
        match (self, choice) {
            (Subject::Kernel { kernel, spec }, Choice::Kernel(schedule)) => cuda::generate(kernel, spec, schedule),
            (Subject::Plan(shape), Choice::Plan(schedule)) => Ok(cuda::plan(shape, schedule)?),
            (Subject::Kernel { .. }, Choice::Plan(_)) => {
                Err(ScheduleFault::Subject { of: "a plan", is: "a kernel" }.into())
            }
            (Subject::Plan(_), Choice::Kernel(_)) => {
                Err(ScheduleFault::Subject { of: "a kernel", is: "a plan" }.into())
            }
        }
    }
}
