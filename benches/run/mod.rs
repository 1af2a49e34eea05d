//! From the command line to the exit code.

use std::process::ExitCode;

use criterion::Criterion;
use rowloom::Error;

/// Runs a file's benchmarks as the command line says; without a flag of its own a setting of
/// `criterion` holds. What goes wrong is one line and exit code 1.
pub fn run(criterion: Criterion, benchmarks: impl FnOnce(&mut Criterion) -> Result<(), Error>) -> ExitCode {
    let mut criterion = criterion.configure_from_args();
    let outcome = benchmarks(&mut criterion);
    criterion.final_summary();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
