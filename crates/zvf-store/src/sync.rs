//! What threads share state with: the locks of the standard library. In the models of `cargo xtask loom` they are
//! those of a checker that runs a model in every order of its steps.
//!
//! Not here: semaphores and channels, which are tokio's and checked there in the same way; atomics, which only the
//! table of the signal handler has.

#[cfg(all(test, zvf_loom))]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(all(test, zvf_loom)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
