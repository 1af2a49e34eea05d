//! The cache under everything that may happen to it, with real processes and a
//! real NVRTC: `cargo xtask nvrtc` fetches one and prints what `ROWLOOM_NVRTC`
//! must be. No GPU is needed.

mod cold;
mod damage;
mod eviction;
mod killed;
mod pack;
mod places;
mod process;
mod sources;
mod torture;
