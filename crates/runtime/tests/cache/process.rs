//! Other processes: a test starts itself again with a role.

use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use rowloom_runtime::cache::CodeCache;

/// Says in a process what it is there for.
const ROLE: &str = "ROWLOOM_TEST_ROLE";

/// What this process was started for; `None` in the one that runs all tests.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The test of this name in a process of its own.
pub fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
    for name in ["ROWLOOM_PACK", "ROWLOOM_JIT", "ROWLOOM_TUNE", "ROWLOOM_CACHE_BYTES", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Tells the process that waits for this one.
#[expect(clippy::print_stdout, reason = "two processes talk")]
pub fn tell(value: &Value) {
    println!("\ntold {value}");
}

/// Counts of a cache, for [`tell`].
pub fn told(cache: &CodeCache) -> Value {
    let mut value = serde_json::to_value(cache.stats()).unwrap();
    value["lookups"] = json!(cache.lookups());
    value["nvrtc_is_loaded"] = json!(nvrtc_is_loaded());
    value
}

/// Whether the library is in this process's memory.
pub fn nvrtc_is_loaded() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("libnvrtc")
}

/// What a process told, and its lines on standard error. It must have ended well.
pub fn finish(child: Child) -> (Value, Vec<String>) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    let told = stdout.lines().find_map(|line| line.strip_prefix("told ")).unwrap_or_else(|| panic!("{stdout}"));
    (serde_json::from_str(told).unwrap(), stderr.lines().map(str::to_owned).collect())
}
