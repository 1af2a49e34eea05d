//! The CPU executor, its plans and its checks, against scalar loops.

mod check_vectors;
mod degenerate;
mod indices;
mod invariance;
mod kernels;
mod moves;
mod oracle;
mod plans;
mod reference;
mod shapes;
mod sizes;
mod sums;
mod views;
