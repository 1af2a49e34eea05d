//! A GPU for a test, or a word that there is none; its work on several threads.

use std::io::Write as _;
use std::sync::Mutex;

use rowloom::Device;

/// `cuda:0`. Without one: `skipped: no CUDA device`, or a failure under `ROWLOOM_REQUIRE_GPU=1`.
pub fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("ROWLOOM_REQUIRE_GPU").is_ok_and(|value| value == "1") => panic!("{error}"),
        Err(_) => {
            // Not through `println!`, which a passing test keeps to itself.
            let _ = std::io::stdout().write_all(b"skipped: no CUDA device\n");
            None
        }
    }
}

/// Threads that compile and run: sources compile on the host.
const THREADS: usize = 8;

/// `each` of the items, on several threads.
pub fn in_parallel<T: Send>(items: impl IntoIterator<Item = T, IntoIter: Send>, each: impl Fn(T) + Sync) {
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(item) = next() {
                    each(item);
                }
            });
        }
    });
}
