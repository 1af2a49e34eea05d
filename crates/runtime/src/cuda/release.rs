//! The GPU driver's own release, as Linux tells it.

/// Such as `580.159.04`; `None` where there is no driver or the system does not tell.
pub fn driver_release() -> Option<String> {
    released(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

fn released(version: &str) -> Option<String> {
    let mut words = version.lines().next()?.split_whitespace();
    words.find(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_found_in_either_module_s_line() {
        let gcc = "\nGCC version:  gcc version 12.2.0\n";
        for module in ["NVIDIA UNIX x86_64 Kernel Module", "NVIDIA UNIX Open Kernel Module for x86_64"] {
            let version = format!("NVRM version: {module}  580.159.04  Release Build{gcc}");
            assert_eq!(released(&version).as_deref(), Some("580.159.04"), "{module}");
        }
        assert_eq!(released(gcc), None);
    }
}
