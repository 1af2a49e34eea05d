//! The fixed list of `rl_*` functions.

use super::Target;

/// One primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Primitive {
    /// Placeholder.
    Barrier,
}

impl Primitive {
    /// Its definition.
    pub fn text(self, target: Target) -> &'static str {
        match target {
            Target::Device | Target::Host => "",
        }
    }
}
