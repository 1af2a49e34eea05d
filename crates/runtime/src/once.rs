//! Values that are made once each, whoever asks.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that is made by the first who asks; others wait for it. What failed
/// is tried again by the next.
pub(crate) struct Slot<V>(Mutex<Option<V>>);

impl<V> Default for Slot<V> {
    fn default() -> Slot<V> {
        Slot(Mutex::new(None))
    }
}

impl<V: Clone> Slot<V> {
    /// What was made; nothing while somebody makes it. Never waits.
    pub(crate) fn peek(&self) -> Option<V> {
        self.0.try_lock().ok()?.clone()
    }

    pub(crate) fn get<E>(&self, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let mut value = lock(&self.0);
        if let Some(value) = &*value {
            return Ok(value.clone());
        }
        Ok(value.insert(make()?).clone())
    }
}

/// A slot for each key. Who waits for one key holds up nobody with another.
pub(crate) struct Once<K, V>(Mutex<HashMap<K, Arc<Slot<V>>>>);

impl<K, V> Default for Once<K, V> {
    fn default() -> Once<K, V> {
        Once(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Once<K, V> {
    pub(crate) fn get<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let mut slots = lock(&self.0);
        let slot = match slots.get(key) {
            Some(slot) => slot.clone(),
            None => slots.entry(key.clone()).or_default().clone(),
        };
        drop(slots);
        slot.get(make)
    }

    /// The next who asks for it makes it anew.
    pub(crate) fn forget(&self, key: &K) {
        lock(&self.0).remove(key);
    }

    /// The keys that were asked for.
    pub(crate) fn keys(&self) -> Vec<K> {
        lock(&self.0).keys().cloned().collect()
    }
}

/// A panic elsewhere leaves whole values behind, never half of one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn many_threads_make_each_value_once() {
        let (once, made, start) = (Once::default(), AtomicU32::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for key in 0..5 {
                        let make = || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Infallible>(key * 10)
                        };
                        assert_eq!(once.get(&key, make), Ok(key * 10));
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 5);
    }

    #[test]
    fn a_key_that_is_slow_holds_up_no_other() {
        let (once, both) = (Once::default(), Barrier::new(2));
        // Each waits inside for the other: with one lock for all this would never end.
        std::thread::scope(|scope| {
            for key in [1, 2] {
                let (once, both) = (&once, &both);
                scope.spawn(move || {
                    once.get(&key, || {
                        both.wait();
                        Ok::<_, Infallible>(key)
                    })
                });
            }
        });
        assert_eq!(once.keys().len(), 2);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let once = Once::default();
        assert_eq!(once.get(&1, || Err("no")), Err("no"));
        assert_eq!(once.get(&1, || Ok::<_, &str>(7)), Ok(7));
        assert_eq!(once.get(&1, || Err("never asked")), Ok(7));
    }
}
