//! A GPU for a test, or a word that there is none.

use std::io::Write as _;

use rowloom::Device;

/// `cuda:0`. Without one: `skipped: no CUDA device`, or a failure under `ROWLOOM_REQUIRE_GPU=1`.
pub fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("ROWLOOM_REQUIRE_GPU").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(_) => {
            // Not through `println!`, which a passing test keeps to itself.
            let _ = std::io::stdout().write_all(b"skipped: no CUDA device\n");
            None
        }
    }
}
