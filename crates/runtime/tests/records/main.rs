//! Records of tuning: where they lie, when they are used, and by what. No GPU is
//! needed: a device is acted out or named, its compiler too.

mod exact;
mod files;
mod made;
