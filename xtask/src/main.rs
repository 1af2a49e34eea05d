//! What rowloom's developers run: `USAGE` lists it.
#![expect(clippy::print_stdout, reason = "a command talks to its user")]

mod bundle;
mod command;
mod nvrtc;
mod python;
mod test;
mod third_party;
mod totals;

use std::process::ExitCode;

const USAGE: &str = "\
write one of
  cargo xtask test           the whole test suite: formatting, lints, docs, tests, the Python package
  cargo xtask test python    the Python package alone: types, wheel, tests of the wheel
  cargo xtask nvrtc          finds or fetches NVRTC; the last line printed is its path
  cargo xtask wheel          the Python package as users install it; the last line printed is its path
  cargo xtask third-party    python/THIRD_PARTY.md: what is linked into that package, with licenses
  cargo xtask bundle         release test binaries for a GPU machine without a Rust toolchain";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run_suite(),
        ["test", "python"] => test::run_package(),
        ["nvrtc"] => nvrtc::path().map(|path| println!("{}", path.display())),
        ["wheel"] => python::wheel().map(|path| println!("{}", path.display())),
        ["third-party"] => third_party::write(),
        ["bundle"] => bundle::run_bundle(),
        [] => Err(USAGE.to_owned()),
        unknown => Err(format!("there is no `{}`; {USAGE}", unknown.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
