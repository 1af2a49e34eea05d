//! The generated CUDA C, reviewed like source: header, the names of the
//! primitives used, body and steps. The primitives' own text stands once.

mod cases;

use rowloom::codegen::cuda::{Primitive, Target};

fn check(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn generated_sources_are_as_reviewed() {
    let sources = cases::sources();
    let mut names: Vec<&String> = sources.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), sources.len(), "names are unique");
    for (name, source) in &sources {
        check(name, &source.outline());
    }
}

#[test]
fn primitives_are_as_reviewed() {
    for (name, target) in [("primitives_device", Target::Device), ("primitives_host", Target::Host)] {
        let text: Vec<&str> = Primitive::ALL.iter().map(|primitive| primitive.text(target)).collect();
        check(name, &text.join("\n"));
    }
}

#[test]
fn sources_include_nothing_and_add_no_floats_atomically() {
    for (name, source) in cases::sources() {
        let text = source.text(Target::Device);
        assert!(!text.contains("#include"), "{name}");
        assert!(!text.contains("atomicAdd(float") && !text.contains("red."), "{name}");
        for line in text.lines().filter(|line| line.contains("atomic") && !line.contains("#define")) {
            let integers = line.contains("rl_u32* address") || line.contains("rl_u64* address");
            let calls = ["rl_atomic_add(arrivals", "rl_atomic_min(error", "rl_atomic_min(bad"];
            assert!(integers || calls.iter().any(|call| line.contains(call)), "{name}: {line}");
        }
    }
}

/// What may be launched before the launch before it has ended waits for that first, and loads
/// nothing by the read-only path; what waits is launched so.
#[test]
fn early_launches_wait_first() {
    let mut found = [false; 2];
    for (name, source) in cases::sources() {
        for entry in source.entries() {
            let head = format!(" {}(", entry.name);
            let (_, after) = source.body.split_once(&head).expect("an entry stands in the body");
            let (_, inside) = after.split_once(") {\n").expect("an entry has a body");
            let inside = inside.split("\n}\n").next().expect("it ends");
            assert_eq!(inside.trim_start().starts_with("rl_begin();"), entry.early, "{name}: {}", entry.name);
            assert_eq!(inside.matches("rl_begin").count(), usize::from(entry.early), "{name}: {}", entry.name);
            let read_only = inside.contains("rl_load_constant") || inside.contains("rl_load_kept");
            assert!(!(entry.early && read_only), "{name}: {}", entry.name);
            found[usize::from(entry.early)] = true;
        }
    }
    assert_eq!(found, [true; 2]);
}
