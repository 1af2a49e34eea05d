//! How code is had before a first launch: the H3 op's planned forward (bf16, i64, nine rows, H = 5376,
//! sm_90) from memory, from the cache folder, from a pack, and from NVRTC.
//!
//! A hit on disk or in a pack is that of a process that has just begun: its cache is opened anew,
//! the file is read, and its checksum compared. Files are in the system's own cache of files.

mod run;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use rowloom::cache::{CodeCache, Origin, PackCode, PackWriter, Settings};
use rowloom::codegen::{Arch, DType, IntType, Source, Spec};
use rowloom::{Error, Nvrtc, sources};
use rowloom_op_adaln::adaln_row_gather;
use run::run;

const ARCH: Arch = Arch::SM_90;

fn main() -> ExitCode {
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(500));
    run(criterion.measurement_time(Duration::from_secs(2)), |criterion| match Nvrtc::find() {
        Ok(nvrtc) => cache(criterion, nvrtc),
        Err(error) => {
            eprintln!("left out memory, disk, pack and NVRTC, since nothing can be compiled: {error}");
            Ok(())
        }
    })
}

fn cache(criterion: &mut Criterion, nvrtc: &Nvrtc) -> Result<(), Error> {
    let kernel = adaln_row_gather::declaration().forward();
    let spec = Spec::contiguous(kernel, DType::Bf16, IntType::I64, &[9], 5376);
    let source = sources::kernel(kernel, &spec, None)?;
    let io = |error| Error::Io { doing: "making a folder".to_owned(), error };
    let folder = tempfile::tempdir().map_err(io)?;
    let (disk, pack) = (folder.path().join("cache"), folder.path().join("pack"));
    let code = PackCode::compile(nvrtc, &source, ARCH, "a benchmark".to_owned())?;
    PackWriter::open(&pack)?.write(&[code])?;
    let on_disk = || CodeCache::new(Settings { folder: Some(disk.clone()), ..Settings::default() });
    let in_pack = || CodeCache::new(Settings { pack: Some(pack.clone()), jit: false, ..Settings::default() });
    let nowhere = || CodeCache::new(Settings::default());
    // The first fills the folder.
    on_disk().image(&source, ARCH)?;

    let mut group = criterion.benchmark_group("cache");
    let warm = on_disk();
    comes_from(Origin::Disk, &warm, &source)?;
    group.bench_function("memory", |bench| bench.iter(|| warm.image(&source, ARCH)));
    comes_from(Origin::Disk, &on_disk(), &source)?;
    group.bench_function("disk", |bench| bench.iter(|| on_disk().image(&source, ARCH)));
    comes_from(Origin::Pack, &in_pack(), &source)?;
    group.bench_function("pack", |bench| bench.iter(|| in_pack().image(&source, ARCH)));
    comes_from(Origin::Nvrtc, &nowhere(), &source)?;
    group.sample_size(10);
    group.bench_function("NVRTC", |bench| bench.iter(|| nowhere().image(&source, ARCH)));
    // With a folder of its own for each, so that each stores what it has compiled.
    let empty = |at: &Path| tempfile::tempdir_in(at).expect("a folder was made here before");
    group.bench_function("NVRTC, stored", |bench| {
        let compile = |folder: &tempfile::TempDir| {
            let settings = Settings { folder: Some(folder.path().to_owned()), ..Settings::default() };
            CodeCache::new(settings).image(&source, ARCH)
        };
        bench.iter_batched_ref(|| empty(folder.path()), |folder| compile(folder), BatchSize::PerIteration);
    });
    group.finish();
    Ok(())
}

/// A hit of another kind would be the time of something else.
fn comes_from(expected: Origin, cache: &CodeCache, source: &Source) -> Result<(), Error> {
    let found = cache.image(source, ARCH)?.origin;
    assert_eq!(found, expected, "the benchmark's own folders are wrong");
    Ok(())
}
