//! Records of tuning: where they lie, when they are used, and by what. No GPU is
//! needed: a device is acted out or named, its compiler too.

#[path = "../cache/process.rs"]
mod process;

mod commands;
mod exact;
mod files;
mod launches;
mod made;
mod without_nvrtc;
