//! The text form, written.

use std::fmt;

use super::Kernel;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        { let _ = f; todo!() }
    }
}
