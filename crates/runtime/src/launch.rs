//! Running a [`rowloom_codegen::Source`] on an accelerator.

/// Code that a device has loaded.
#[derive(Default)]
pub(crate) struct Modules {}
