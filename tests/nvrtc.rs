//! NVRTC compiles every snapshot to a cubin, without spills or local memory.

mod cases;
