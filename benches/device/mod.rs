//! A GPU for a benchmark, or a word that there is none.

use rowloom::{Device, Error};

/// `cuda:0`. Without a driver or a GPU `None`, and a line that says so; an error under
/// `ROWLOOM_REQUIRE_GPU=1`. A GPU that does not work is an error always.
#[expect(clippy::print_stdout, reason = "a benchmark talks to its user")]
pub fn gpu() -> Result<Option<Device>, Error> {
    let required = std::env::var("ROWLOOM_REQUIRE_GPU").is_ok_and(|value| value == "1");
    match Device::cuda(0) {
        Ok(device) => Ok(Some(device)),
        Err(Error::NoDriver { .. } | Error::NoDevice { .. }) if !required => {
            println!("skipped: no CUDA device");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
