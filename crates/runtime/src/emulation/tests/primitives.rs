//! Every primitive compiles, without a warning.

use std::process::Command;

use rowloom_codegen::cuda::{Primitive, Source, Target};

use super::source;
use crate::emulation::compile::compiler;
use crate::emulation::text::translation_unit;

fn every_primitive() -> Source {
    source("every_primitive", 128, 7, include_str!("every_primitive.cu"))
}

#[test]
fn the_host_texts_compile_without_a_warning() {
    let source = every_primitive();
    assert_eq!(Primitive::used_by(&source.body, Target::Device), Primitive::ALL, "the body must use every primitive");
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("every_primitive.cpp");
    std::fs::write(&unit, translation_unit(&[&source])).expect("written");
    let output = Command::new(compiler())
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-c", "-o"])
        .arg(folder.path().join("every_primitive.o"))
        .arg(&unit)
        .output()
        .expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
