//! Compiles sources, many at once, and launches their entries.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rowloom_codegen::Source;
use rowloom_codegen::cuda::Entry;

use super::compile::{compile, require_compiler};
use super::library::{Launch, Library};
use super::text::translation_unit;
use crate::error::Error;

/// Sources of one translation unit: more compile no faster a piece.
const BATCH: usize = 16;

/// Functions of the sources that this process has compiled, by their body; whatever the seed.
/// The headers differ more often.
static COMPILED: Mutex<Option<HashMap<String, Vec<Function>>>> = Mutex::new(None);

/// Runs generated bodies on the CPU, thread by thread, in an order that a seed decides.
pub(super) struct Emulator {
    seed: u64,
}

/// A compiled entry.
#[derive(Clone)]
pub(super) struct Function {
    library: Arc<Library>,
    /// Its place in the library.
    place: u32,
    pub(super) entry: Entry,
}

impl Emulator {
    /// Fails if there is no C++ compiler.
    pub(super) fn new(seed: u64) -> Result<Emulator, Error> {
        require_compiler()?;
        Ok(Emulator { seed })
    }

    /// The functions of each source, one per entry in the order of [`Source::entries`].
    /// Compiles what this process has not compiled yet, in few runs of the compiler.
    pub(super) fn compile(&self, sources: &[&Source]) -> Result<Vec<Vec<Function>>, Error> {
        // Held while compiling, so that nothing is compiled twice.
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = compiled.get_or_insert_default();
        let mut seen = HashSet::new();
        let missing = sources.iter().copied().filter(|source| !compiled.contains_key(&source.body));
        let missing: Vec<&Source> = missing.filter(|source| seen.insert(&source.body)).collect();
        for (source, functions) in compile_batches(&missing)? {
            compiled.insert(source.body.clone(), functions);
        }
        Ok(sources.iter().map(|source| compiled[&source.body].clone()).collect())
    }

    /// Runs `blocks` blocks of a function to the end or to the first fault.
    ///
    /// # Safety
    ///
    /// `arguments` are what the entry's parameters say. Every range of `memory` (ascending,
    /// without overlap) is allocated, and nobody else writes there meanwhile. The body
    /// accesses memory through primitives only.
    #[expect(unsafe_code, reason = "passes on what its caller vouches for")]
    pub(super) unsafe fn launch(
        &self,
        function: &Function,
        blocks: u64,
        arguments: &[u64],
        memory: &[Range<u64>],
    ) -> Result<(), Error> {
        let Function { library, place, entry } = function;
        assert_eq!(arguments.len(), entry.params.len(), "arguments of {}", entry.name);
        let (name, threads, seed) = (&entry.name, entry.threads, self.seed);
        let launch = Launch { name, blocks, threads, arguments, memory, seed };
        // SAFETY: the entry is of this library, the number of arguments was checked; the rest
        // is the caller's word.
        unsafe { library.run(*place, &launch) }
    }
}

/// A source and its functions.
type Compiled<'a> = (&'a Source, Vec<Function>);

/// One run of the compiler per core at a time. Not on the threads of rayon: one of them may wait
/// for what is compiled here.
fn compile_batches<'a>(missing: &[&'a Source]) -> Result<Vec<Compiled<'a>>, Error> {
    let batches = Mutex::new(missing.chunks(BATCH));
    let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(next).map(compile_batch).collect::<Result<Vec<_>, Error>>();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len().div_ceil(BATCH));
    let compiled = std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect::<Result<Vec<_>, Error>>()
    })?;
    Ok(compiled.into_iter().flatten().flatten().collect())
}

fn compile_batch<'a>(sources: &[&'a Source]) -> Result<Vec<Compiled<'a>>, Error> {
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let library = Arc::new(compile(&translation_unit(sources), &names.join(", "))?);
    let mut places = 0..;
    let mut functions = |source: &Source| {
        let entries = source.entries().cloned().zip(&mut places);
        entries.map(|(entry, place)| Function { library: Arc::clone(&library), place, entry }).collect()
    };
    Ok(sources.iter().map(|&source| (source, functions(source))).collect())
}
