//! Locks for shared state, and work on many items on several threads.
//!
//! The locks are those of the standard library. The models of `cargo xtask loom` use the locks of a
//! model checker, which tries every interleaving.
//!
//! Work runs inside a tokio runtime on its blocking threads, in one hop, otherwise on threads that
//! end with the batch. Never on the caller's rayon pool: all its workers may be waiting for this
//! very batch, and a waiting worker runs other tasks, which may wait for the result of this one.
//!
//! Not here: semaphores and channels, which tokio model-checks itself; atomics, which only the
//! table of the signal handler uses.

use std::iter::Enumerate;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::vec::IntoIter;

use futures_util::future::join_all;
use tokio::runtime::Handle;

#[cfg(all(test, zvf_loom))]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(all(test, zvf_loom)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks a value that is consistent even after a panic, because nothing changes it in steps.
pub(crate) fn lock<T>(mutex: &StdMutex<T>) -> StdMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `run` for each of `items` on up to this many threads, and returns the results in their
/// order. Each thread has its own scratch `S`, and in a runtime holds a permit. `None` if the
/// runtime shuts down.
pub(crate) async fn on_threads<I, T, S, P>(
    items: Vec<I>,
    threads: usize,
    permit: impl Fn() -> P,
    run: impl Fn(I, &mut S) -> T + Send + Sync + 'static,
) -> Option<Vec<T>>
where
    I: Send + 'static,
    T: Send + 'static,
    S: Default,
    P: Future<Output: Send + 'static>,
{
    let threads = threads.min(items.len());
    let work = Arc::new((StdMutex::new(items.into_iter().enumerate()), run));
    let mut done = Vec::new();
    match Handle::try_current() {
        Ok(runtime) => {
            let hops = (0..threads.max(1)).map(|_| async {
                let (work, permit) = (Arc::clone(&work), permit().await);
                let hop = move || {
                    let part = drain(&work);
                    drop(permit);
                    part
                };
                runtime.spawn_blocking(hop).await
            });
            for joined in join_all(hops).await {
                match joined.map_err(tokio::task::JoinError::try_into_panic) {
                    Ok(part) => done.extend(part),
                    Err(Ok(panic)) => resume_unwind(panic),
                    Err(Err(_cancelled)) => return None,
                }
            }
        }
        Err(_no_runtime) if threads < 2 => done = drain(&work),
        Err(_no_runtime) => std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| drain(&work))).collect();
            done = drain(&work);
            for other in others {
                done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        }),
    }
    done.sort_unstable_by_key(|(place, _)| *place);
    Some(done.into_iter().map(|(_, made)| made).collect())
}

/// Runs items until none are left; returns each result with its position.
fn drain<I, T, S: Default>(
    (items, run): &(StdMutex<Enumerate<IntoIter<I>>>, impl Fn(I, &mut S) -> T),
) -> Vec<(usize, T)> {
    let mut scratch = S::default();
    let next = || lock(items).next();
    std::iter::from_fn(next).map(|(place, item)| (place, run(item, &mut scratch))).collect()
}
