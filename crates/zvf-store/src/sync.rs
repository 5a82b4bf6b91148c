//! Locks for shared state, from the standard library. The models of `cargo xtask loom` use the
//! locks of a model checker, which tries every interleaving.
//!
//! Not here: semaphores and channels, which tokio model-checks itself; atomics, which only the
//! table of the signal handler uses.

#[cfg(all(test, zvf_loom))]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(all(test, zvf_loom)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};

/// Locks a value that is consistent even after a panic, because nothing changes it in steps.
pub(crate) fn lock<T>(mutex: &StdMutex<T>) -> StdMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
