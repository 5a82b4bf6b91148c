//! The memory limit of a build: cells that wait for their shard, and objects in flight.
//!
//! Objects in flight release their bytes when they arrive, so a request for more memory waits for
//! them (backpressure). A task waits without blocking its thread; a thread first moves the tasks of
//! its runtime to another thread. Bytes that only the caller can release would never become free:
//! then the result is an error.
//!
//! On a runtime with a single thread, that thread must not wait, so there the bytes in flight are
//! not bounded; tasks still wait.

use std::sync::{Arc, PoisonError};

#[cfg(not(target_arch = "wasm32"))]
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use zvf_error::{Error, Result};
use zvf_format::num::to_u64;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// The memory limit of one build; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLimiter(Arc<SharedLimiter>);

#[derive(Debug)]
struct SharedLimiter {
    cap: u64,
    waits: bool,
    state: Mutex<Usage>,
    freed: Condvar,
    freed_for_tasks: Notify,
}

#[derive(Debug, Default)]
struct Usage {
    held: u64,
    leaving: u64, // the part of it that is released by itself
}

impl MemoryLimiter {
    pub(crate) fn new(cap: u64, waits: bool) -> Self {
        let (state, freed_for_tasks) = (Mutex::default(), Notify::new());
        Self(Arc::new(SharedLimiter { cap, waits, state, freed: Condvar::new(), freed_for_tasks }))
    }

    /// Acquires `bytes` that stay until the caller releases them.
    ///
    /// # Errors
    ///
    /// When the limit is reached and nothing in flight will release memory.
    pub(crate) fn try_acquire(&self, bytes: u64) -> Result<MemoryPermit> {
        let mut state = self.0.state();
        while state.held + bytes > self.0.cap {
            if state.leaving == 0 || !self.0.waits {
                let found = state.held + bytes;
                return Err(Error::limit("bytes held", self.0.cap, found));
            }
            drop(state);
            state = self.0.wait(|state| state.leaving > 0 && state.held + bytes > self.0.cap);
        }
        state.held += bytes;
        Ok(MemoryPermit { room: Arc::clone(&self.0), bytes, leaving: false })
    }

    /// Acquires `bytes` for an object in flight, and blocks until they fit. A request above the
    /// limit is admitted when nothing else is held.
    pub(crate) fn acquire_blocking(&self, bytes: u64) -> MemoryPermit {
        if !self.0.waits {
            return self.0.enter(self.0.state(), bytes);
        }
        loop {
            let state = self.0.wait(|state| state.is_full(bytes, self.0.cap));
            // Another thread may have been faster.
            if !state.is_full(bytes, self.0.cap) {
                return self.0.enter(state, bytes);
            }
        }
    }

    /// Like [`acquire_blocking`](Self::acquire_blocking), for a task: its thread does other work
    /// until the bytes fit.
    pub(crate) async fn acquire(&self, bytes: u64) -> MemoryPermit {
        loop {
            let freed = self.0.freed_for_tasks.notified();
            {
                let state = self.0.state();
                if !state.is_full(bytes, self.0.cap) {
                    return self.0.enter(state, bytes);
                }
            }
            freed.await;
        }
    }

    /// Returns the number of bytes held now.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.0.state().held
    }
}

impl SharedLimiter {
    fn state(&self) -> MutexGuard<'_, Usage> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks this thread while `is_full` holds.
    fn wait(&self, is_full: impl Fn(&Usage) -> bool) -> MutexGuard<'_, Usage> {
        let state = self.state();
        if !is_full(&state) {
            return state;
        }
        drop(state);
        let wait = || {
            let mut state = self.state();
            while is_full(&state) {
                state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // Objects in flight may need this very thread: another thread takes over its tasks.
        #[cfg(not(target_arch = "wasm32"))]
        if tokio::task::try_id().is_some() && is_worker() {
            tokio::task::block_in_place(wait);
        } else {
            wait();
        }
        #[cfg(target_arch = "wasm32")]
        wait();
        self.state()
    }

    fn enter(self: &Arc<Self>, mut state: MutexGuard<'_, Usage>, bytes: u64) -> MemoryPermit {
        state.held += bytes;
        state.leaving += bytes;
        MemoryPermit { room: Arc::clone(self), bytes, leaving: true }
    }
}

impl Usage {
    /// Returns whether `bytes` of an object in flight must wait for other objects in flight.
    const fn is_full(&self, bytes: u64, cap: u64) -> bool {
        self.leaving > 0 && self.held + bytes > cap
    }
}

/// Returns whether this thread may be one of several worker threads of a runtime.
#[cfg(not(target_arch = "wasm32"))]
fn is_worker() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// A permit for bytes, released when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    room: Arc<SharedLimiter>,
    bytes: u64,
    leaving: bool,
}

/// The memory of a buffer that grows, acquired in steps.
#[derive(Debug)]
pub(crate) struct GrowingPermit {
    room: MemoryLimiter,
    permits: Vec<MemoryPermit>,
}

impl GrowingPermit {
    pub(crate) fn new(room: &MemoryLimiter) -> Self {
        Self { room: room.clone(), permits: Vec::new() }
    }

    /// Acquires memory up to `bytes` in all.
    ///
    /// # Errors
    ///
    /// As [`MemoryLimiter::try_acquire`].
    pub(crate) fn acquire_up_to(&mut self, bytes: usize) -> Result<()> {
        let steps = bytes.div_ceil(STEP_BYTES);
        while self.permits.len() < steps {
            self.permits.push(self.room.try_acquire(to_u64(STEP_BYTES))?);
        }
        Ok(())
    }

    /// Releases all of it.
    pub(crate) fn clear(&mut self) {
        self.permits.clear();
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.held -= self.bytes;
        if self.leaving {
            state.leaving -= self.bytes;
        }
        drop(state);
        self.room.freed.notify_all();
        self.room.freed_for_tasks.notify_waiters();
    }
}

/// Step in which a growing buffer acquires memory.
const STEP_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_are_refused_and_bytes_in_flight_are_waited_for() {
        let limiter = MemoryLimiter::new(100, true);
        let permit = limiter.try_acquire(60).unwrap();
        assert_eq!(
            limiter.try_acquire(41).unwrap_err().to_string(),
            "LimitExceeded, bytes held: expected at most 100, found 101; \
             more than the limit allows: request less, or raise the limit",
        );
        let leaving = limiter.acquire_blocking(40);
        let (blocking_room, trying_room) = (limiter.clone(), limiter.clone());
        let waits = std::thread::spawn(move || drop(blocking_room.acquire_blocking(50)));
        let keeps = std::thread::spawn(move || trying_room.try_acquire(40).map(drop));
        drop(leaving);
        waits.join().unwrap();
        keeps.join().unwrap().unwrap();
        assert_eq!(limiter.held_bytes(), 60);
        drop(permit);
        drop(limiter.acquire_blocking(1000));
        assert_eq!(limiter.held_bytes(), 0);
    }

    #[test]
    fn waiting_on_the_only_worker_lets_its_tasks_run() {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let runtime = threads.worker_threads(1).build().unwrap();
        let limiter = MemoryLimiter::new(100, true);
        let (leaving, shared_room) = (limiter.acquire_blocking(80), limiter.clone());
        let waits = runtime.spawn(async move {
            tokio::spawn(async move { drop(leaving) });
            let first = shared_room.acquire_blocking(90);
            tokio::spawn(async move { drop(first) });
            shared_room.try_acquire(60).map(drop)
        });
        runtime.block_on(waits).unwrap().unwrap();
        assert_eq!(limiter.held_bytes(), 0);
    }

    #[tokio::test]
    async fn tasks_wait_where_threads_do_not() {
        let limiter = MemoryLimiter::new(100, false);
        let (first, shared_room) = (limiter.acquire_blocking(80), limiter.clone());
        let waits = tokio::spawn(async move { shared_room.acquire(30).await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(first);
        drop(waits.await.unwrap());
        assert_eq!(limiter.held_bytes(), 0);
    }

    #[test]
    fn single_threaded_runtimes_do_not_wait() {
        let limiter = MemoryLimiter::new(100, false);
        let all = [limiter.acquire_blocking(80), limiter.acquire_blocking(80)];
        assert_eq!(limiter.held_bytes(), 160);
        assert!(limiter.try_acquire(1).is_err());
        drop(all);
    }
}
