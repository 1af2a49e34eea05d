//! Work on several threads.

use std::sync::Mutex;

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
