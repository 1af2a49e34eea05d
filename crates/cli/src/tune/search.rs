//! The search of `rowloom tune KERNEL`.

use super::Args;
use crate::error::{Error, Result};

/// Searches as the arguments say.
pub fn run(args: &Args) -> Result<()> {
    let _ = args;
    Err(Error::failed("this rowloom has no search yet"))
}
