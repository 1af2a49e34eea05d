//! Release binaries for a GPU machine without a Rust toolchain.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{cargo, empty, root, run, target};
use crate::python;

/// A program that cargo builds for its own use.
struct Built {
    /// As cargo's command line says: `--test`, `--bench`, `--example`.
    kind: &'static str,
    package: &'static str,
    name: &'static str,
}

const fn test(name: &'static str) -> Built {
    Built { kind: "--test", package: "rowloom", name }
}

const fn example(name: &'static str) -> Built {
    Built { kind: "--example", package: "rowloom", name }
}

const fn bench(name: &'static str) -> Built {
    Built { kind: "--bench", package: "rowloom", name }
}

/// What a GPU machine runs beside the command.
const BUILT: [Built; 13] = [
    test("gpu"),
    test("gpu_sizes"),
    test("gpu_calls"),
    test("gpu_cache"),
    Built { kind: "--test", package: "rowloom-runtime", name: "borrowed" },
    Built { kind: "--test", package: "rowloom-runtime", name: "lent" },
    test("sanitize"),
    example("first_result"),
    bench("generation"),
    bench("cache"),
    bench("launch"),
    bench("cpu"),
    bench("gpu"),
];

/// Scripts that run some of it.
const SCRIPTS: [&str; 1] = ["tests/sanitize.sh"];

/// What to do with all of it.
const COMMANDS: &str = "\
On the GPU machine, in this folder:
  export ROWLOOM_REQUIRE_GPU=1    a missing GPU is a failure
  ./gpu --test-threads=4          bytes, every schedule, plans, errors
  ./gpu_calls --test-threads=1    modes, streams, graphs
  ./gpu_cache                     code from NVRTC, the cache and a pack; needs an NVRTC
  ./borrowed                      memory and streams of another framework
  ./lent                          plans, workspaces and gradients in its memory
  python3 -m pip install --no-deps --force-reinstall python/*.whl; (cd python && python3 -m pytest -rs)
                                  the Python package; needs PyTorch, NumPy and pytest
  ./gpu_sizes --test-threads=2    tensors beyond 2^32 elements; needs 40 GB of GPU memory
  ./sanitize.sh                   compute-sanitizer's four tools
  export ROWLOOM_CACHE_DIR=$(mktemp -d); ./first_result; ./first_result
                                  time to a first result: with an empty cache, with a full one
  ./rowloom pack adaln_row_gather --dtype bf16 --rows 9 --arch sm_90 --out pack
  ROWLOOM_PACK=pack ROWLOOM_JIT=off ROWLOOM_NVRTC=/none ./first_result
                                  the same without NVRTC; --arch as `./rowloom doctor` says
  ./rowloom selftest --device cuda:0    digests of the CPU executor
  ./rowloom tune adaln_row_gather --dtype bf16 --rows 9 --positions 4097,32768,131072 --budget 3m --out tuned.json
                                  every legal schedule, compared and timed
  ./rowloom report adaln_row_gather --device cuda:0 --out report.json
  benches/gpu --bench             the H3 op by CUDA events, beside the memory's ceilings
  benches/launch --bench          host time of a planned launch; so cpu, cache, generation;
                                  without --bench each runs once and times nothing";

/// Collects `rowloom`, tests, benchmarks and scripts, stripped, and the Python package in `target/bundle`.
pub(crate) fn run_bundle() -> Result<(), String> {
    let folder = target().join("bundle");
    empty(&folder)?;
    let mut build = cargo();
    build.args(["build", "--release", "--package", "rowloom-cli"]);
    // There is no repository on the GPU machine, and a report names its commit.
    if let Some(commit) = commit() {
        build.env("ROWLOOM_COMMIT", commit);
    }
    run(&mut build)?;
    collect(&target().join("release/rowloom"), &folder.join("rowloom"))?;
    for built in &BUILT {
        collect(&built.path()?, &built.place(&folder)?)?;
    }
    for script in SCRIPTS {
        let from = root().join(script);
        let to = folder.join(from.file_name().unwrap_or_default());
        copy(&from, &to)?;
    }
    let package = folder.join("python");
    python::lay_tests(&package)?;
    let wheel = python::wheel()?;
    copy(&wheel, &package.join(wheel.file_name().unwrap_or_default()))?;
    println!("{COMMANDS}\n{}", folder.display());
    Ok(())
}

/// The commit, with `-dirty` behind it when tracked files differ.
fn commit() -> Option<String> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let output = Command::new("git").arg("-C").arg(root()).args(describe).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Built {
    /// Where it goes: benchmarks apart, since a test may have the same name.
    fn place(&self, folder: &Path) -> Result<PathBuf, String> {
        let folder = if self.kind == "--bench" { folder.join("benches") } else { folder.to_owned() };
        std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        Ok(folder.join(self.name))
    }

    /// Builds it; where it is, from cargo's own messages.
    fn path(&self) -> Result<PathBuf, String> {
        let &Built { kind, package, name } = self;
        let mut build = cargo();
        // Of an example `cargo test` would make a runner of no tests.
        let verb: &[&str] = if kind == "--example" { &["build"] } else { &["test", "--no-run"] };
        build.args(verb).args(["--release", "--package", package, kind, name, "--message-format=json"]);
        let output =
            build.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo did not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("{name} does not build"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let key = "\"executable\":\"";
        let mut paths = text.lines().filter_map(|line| Some(line.split_once(key)?.1.split_once('"')?.0));
        let path = paths.rfind(|path| path.ends_with(&format!("/{name}")) || path.contains(&format!("/{name}-")));
        path.map(PathBuf::from).ok_or_else(|| format!("cargo names no binary of {name}"))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

fn collect(from: &Path, to: &Path) -> Result<(), String> {
    copy(from, to)?;
    run(Command::new("strip").arg(to))
}
