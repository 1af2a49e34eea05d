//! The rowloom command over the H3 kernels.

use std::process::ExitCode;

use rowloom_op_adaln as _;

fn main() -> ExitCode {
    rowloom_cli::main()
}
