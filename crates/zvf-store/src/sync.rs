//! Locks for shared state: those of the standard library. In the models of `cargo xtask loom`, they
//! are those of a model checker that tries every interleaving.
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
