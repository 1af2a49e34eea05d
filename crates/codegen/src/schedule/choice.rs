//! Which schedules are legal, which is the default, and the space between.

use std::collections::HashSet;

use super::{Schedule, ScheduleFault, positions, segments};
use crate::ir::{Kernel, OutputKind, Verified};
use crate::spec::Spec;

/// Whether the kernel has outputs with a row per position, and sums over positions.
pub(crate) fn parts(kernel: &Kernel) -> (bool, bool) {
    let is_rows = |kind: &OutputKind| matches!(kind, OutputKind::Rows(_));
    let positions = kernel.outputs.iter().any(|output| is_rows(&output.kind));
    let segments = kernel.outputs.iter().any(|output| !is_rows(&output.kind));
    (positions, segments)
}

impl Schedule {
    /// Whether this schedule may run the kernel.
    pub fn check(&self, kernel: &Verified, spec: &Spec) -> Result<(), ScheduleFault> {
        let (positions, segments) = parts(kernel);
        let part = |needed: bool, given: bool, part| match (needed, given) {
            (true, false) => Err(ScheduleFault::Part { kernel: kernel.name.clone(), needs: "needs", part }),
            (false, true) => Err(ScheduleFault::Part { kernel: kernel.name.clone(), needs: "has no use for", part }),
            (true, true) | (false, false) => Ok(()),
        };
        part(positions, self.positions.is_some(), "outputs with a row per position")?;
        part(segments, self.segments.is_some(), "sums over positions")?;
        if let Some(part) = self.positions {
            part.check()?;
        }
        if let Some(part) = self.segments {
            part.check(kernel, spec)?;
        }
        let tile = kernel.tile();
        let inside = self.positions.is_none_or(|part| tile.allows_positions(&part))
            && self.segments.is_none_or(|part| tile.allows_segments(&part));
        if inside {
            return Ok(());
        }
        Err(ScheduleFault::Tile { kernel: kernel.name.clone(), schedule: self.to_string() })
    }

    /// What runs when nothing was tuned: the first legal schedule of the space, which
    /// begins with the measured rules. `None` when the declared tile leaves none for this Spec.
    pub fn default_for(kernel: &Verified, spec: &Spec) -> Option<Schedule> {
        Schedule::space(kernel, spec).into_iter().find(|schedule| schedule.check(kernel, spec).is_ok())
    }

    /// Every candidate that the declared tile allows, in a fixed order, legal or not.
    ///
    /// Outputs per position and sums over positions run in launches of their own, so
    /// each part is varied beside the first legal one of the other.
    pub fn space(kernel: &Verified, spec: &Spec) -> Vec<Schedule> {
        let (has_positions, has_segments) = parts(kernel);
        let tile = kernel.tile();
        let mut positions = if has_positions { positions::space(kernel, spec) } else { vec![] };
        positions.retain(|part| tile.allows_positions(part));
        let mut segments = if has_segments { segments::space(kernel, spec) } else { vec![] };
        segments.retain(|part| tile.allows_segments(part));
        let one_positions = positions.iter().find(|part| part.check().is_ok()).copied();
        let one_segments = segments.iter().find(|part| part.check(kernel, spec).is_ok()).copied();
        let first = positions.into_iter().map(|part| Schedule { positions: Some(part), segments: one_segments });
        let second = segments.into_iter().map(|part| Schedule { positions: one_positions, segments: Some(part) });
        let mut seen = HashSet::new();
        first.chain(second).filter(|schedule| seen.insert(*schedule)).collect()
    }
}
