//! A GPU for a test, or a word that there is none.

use std::io::Write as _;

use rowloom::{Device, Error};

/// `cuda:0`. Without a driver or a GPU: `skipped: no CUDA device`, or a failure under
/// `ROWLOOM_REQUIRE_GPU=1`. A GPU that does not work is a failure always.
pub fn gpu() -> Option<Device> {
    let required = std::env::var("ROWLOOM_REQUIRE_GPU").is_ok_and(|value| value == "1");
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(Error::NoDriver { .. } | Error::NoDevice { .. }) if !required => {
            // Not through `println!`, which a passing test keeps to itself.
            let _ = std::io::stdout().write_all(b"skipped: no CUDA device\n");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
