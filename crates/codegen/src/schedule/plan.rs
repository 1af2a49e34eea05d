//! How a plan is built.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ScheduleFault;
use crate::cuda::PlanShape;

/// How a plan is built. Like every schedule it changes no byte of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSchedule {
    /// What a launch does.
    pub kind: PlanKind,
}

/// What the launches that build a plan do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// A block of threads for each tile of positions: counted, divided, moved, one launch each.
    ///
    /// Legal always. Good from some thousand positions on. Cost: three launches.
    Tiles,
}

impl PlanKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PlanKind::Tiles => "tiles",
        }
    }
}

impl fmt::Display for PlanSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kind = {}", self.kind.name())
    }
}

impl PlanSchedule {
    /// Whether this schedule may build the plan.
    pub fn check(&self, _shape: &PlanShape) -> Result<(), ScheduleFault> {
        Ok(())
    }

    /// What builds a plan when nothing was tuned: the first legal schedule of the space.
    pub fn default_for(shape: &PlanShape) -> PlanSchedule {
        let space = PlanSchedule::space(shape);
        let legal = space.into_iter().find(|schedule| schedule.check(shape).is_ok());
        legal.unwrap_or(PlanSchedule { kind: PlanKind::Tiles })
    }

    /// Every candidate, in a fixed order, legal or not.
    pub fn space(_shape: &PlanShape) -> Vec<PlanSchedule> {
        vec![PlanSchedule { kind: PlanKind::Tiles }]
    }
}
