//! The code of candidates.

use rayon::prelude::*;
use rowloom_codegen::cuda::GenerateError;
use rowloom_codegen::{Choice, Source, Subject};

use crate::cache::CodeCache;
use crate::device::{Device, Place};
use crate::engine::Engine;
use crate::error::Error;

/// Makes the source of a candidate: [`Subject::generate`], but for tests that tamper with it.
pub type Generate = fn(&Subject, &Choice) -> Result<Source, GenerateError>;

/// Compiles candidates, on a GPU in parallel and through the cache, and tells of each as it is done.
///
/// # Errors
/// [`Error::NoSchedules`] on the CPU.
pub fn compile(
    device: &Device,
    subject: &Subject,
    candidates: &[(usize, Choice)],
    generate: Generate,
    each: &(dyn Fn(usize, Result<(), Error>) + Sync),
) -> Result<(), Error> {
    let Place::Accelerator(engine) = &device.0 else { return Err(Error::NoSchedules) };
    if device.name().starts_with("cuda") {
        candidates.par_iter().for_each(|(at, choice)| {
            let source = generated(generate, subject, choice);
            let image = source.and_then(|source| CodeCache::of_process().image(&source, engine.accelerator.arch()));
            each(*at, image.map(drop));
        });
        return Ok(());
    }
    emulated(engine, subject, candidates, generate, each);
    Ok(())
}

/// Many at once cost little more than one; when one of them fails, one by one.
fn emulated(
    engine: &Engine,
    subject: &Subject,
    candidates: &[(usize, Choice)],
    generate: Generate,
    each: &(dyn Fn(usize, Result<(), Error>) + Sync),
) {
    let mut sources = Vec::new();
    for (at, choice) in candidates {
        match generated(generate, subject, choice) {
            Ok(source) => sources.push((*at, source)),
            Err(error) => each(*at, Err(error)),
        }
    }
    let all: Vec<&Source> = sources.iter().map(|(_, source)| source).collect();
    let together = engine.accelerator.prepare(&all).is_ok();
    for (at, source) in &sources {
        each(*at, if together { Ok(()) } else { engine.accelerator.prepare(&[source]) });
    }
}

/// The source of a candidate.
pub(super) fn generated(generate: Generate, subject: &Subject, choice: &Choice) -> Result<Source, Error> {
    generate(subject, choice).map_err(|fault| {
        let kernel = match subject {
            Subject::Kernel { kernel, .. } => kernel.name.clone(),
            Subject::Plan(_) => "a plan".to_owned(),
        };
        Error::Schedule { kernel, reason: fault.to_string() }
    })
}
