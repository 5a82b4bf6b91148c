//! Runs work in the background before its result is needed.
//!
//! A future that is polled only while its consumer waits keeps its resources between two polls:
//! slots of the single-flight cache and permits of the budget, for which the next query on the same
//! handle may wait forever. So prefetched work does not depend on its consumer:
//!
//! ```text
//! remote store, in a tokio runtime    a task      aborted when its result is not wanted any more
//! files of this machine               a thread    stopped in that case
//! remote store, no runtime            nothing before its result is waited for
//! ```

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, PoisonError};

#[cfg(not(all(test, zvf_loom)))]
use futures_executor::block_on;
use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
#[cfg(all(test, zvf_loom))]
use loom::{future::block_on, sync::Mutex, thread};
#[cfg(not(all(test, zvf_loom)))]
use std::{sync::Mutex, thread};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zvf_error::{Error, Result};
use zvf_format::Class;

/// Where prefetched work runs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Runner {
    Tasks,
    Threads,
    Inline,
}

impl Runner {
    /// Returns the runner for reads of a remote store, or of files.
    pub(super) fn for_store(is_remote: bool) -> Self {
        match Handle::try_current() {
            _ if !is_remote => Self::Threads,
            Ok(_) => Self::Tasks,
            Err(_) => Self::Inline,
        }
    }

    /// Starts `work`.
    pub(super) fn run<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        match (self, Handle::try_current()) {
            (Self::Tasks, Ok(runtime)) => Running::Task(runtime.spawn(work)),
            (Self::Threads, _) => Running::start_on_thread(work.boxed()),
            (Self::Tasks, Err(_)) | (Self::Inline, _) => Running::Inline(work.map(Ok).boxed()),
        }
    }
}

/// Work in progress. Dropping it cancels the work.
pub(super) enum Running<T> {
    Task(JoinHandle<T>),
    Thread {
        result: oneshot::Receiver<T>,
        handle: Option<thread::JoinHandle<()>>,
        /// Dropped with the rest, which stops the thread at its next wait.
        _stop: oneshot::Sender<Infallible>,
    },
    Inline(BoxFuture<'static, Result<T>>),
}

impl<T: Send + 'static> Running<T> {
    /// Runs `work` on a separate thread: reads of local files then need no runtime and block none.
    fn start_on_thread(work: BoxFuture<'static, T>) -> Self {
        let (sender, result) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let shared = Arc::new(Mutex::new(Some(work)));
        let thread_work = Arc::clone(&shared);
        let take = |shared: &Mutex<Option<BoxFuture<'static, T>>>| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let run = move || {
            let Some(work) = take(&thread_work) else { return };
            let stopped = pin!(stopped);
            if let Either::Left((value, _)) = block_on(select(work, stopped)) {
                // The receiver is gone if the stream was dropped meanwhile.
                drop(sender.send(value));
            }
        };
        match thread::Builder::new().name("zvf-stream".into()).spawn(run) {
            Ok(handle) => Self::Thread { result, handle: Some(handle), _stop: stop },
            // The thread could not be started: the consumer does the work.
            Err(_) => match take(&shared) {
                Some(work) => Self::Inline(work.map(Ok).boxed()),
                None => Self::Inline(async { Err(runtime_stopped_error()) }.boxed()),
            },
        }
    }

    /// Waits for the result. May be dropped and called again until it returns one.
    pub(super) async fn finish(&mut self) -> Result<T> {
        match self {
            Self::Task(task) => match task.await {
                Ok(value) => Ok(value),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => Err(runtime_stopped_error()),
            },
            Self::Thread { result, handle, .. } => match result.await {
                Ok(value) => Ok(value),
                Err(_) => match handle.take().map(thread::JoinHandle::join) {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    Some(Ok(())) | None => Err(runtime_stopped_error()),
                },
            },
            Self::Inline(work) => work.await,
        }
    }

    /// Returns whether the result is available, so that `finish` does not wait.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Task(task) => task.is_finished(),
            Self::Thread { result, .. } => !result.is_empty(),
            Self::Inline(_) => false,
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Self::Task(task) = self {
            task.abort();
        }
    }
}

/// Returns the error of work that was cancelled because its runtime shut down.
fn runtime_stopped_error() -> Error {
    Error::new(
        Class::Cancelled,
        "answer",
        "a runtime that runs until the answer is complete",
        "one that was shut down",
    )
}

/// Models that `cargo xtask loom` runs under every interleaving.
#[cfg(all(test, zvf_loom))]
mod models {
    use loom::thread::yield_now;
    use zvf_store::{Budget, OpenOptions};

    use super::*;

    /// Runs `model` under every interleaving with at most three preemptions.
    fn check(model: impl Fn() + Send + Sync + 'static) {
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound = Some(3);
        checker.check(model);
    }

    /// A budget that one work unit uses up.
    fn budget() -> Budget {
        let options =
            OpenOptions { budget_bytes: 1 << 10, cache_bytes: 0, ..OpenOptions::default() };
        Budget::new(&options)
    }

    #[test]
    fn work_returns_its_result() {
        check(|| {
            let mut running = Running::start_on_thread(async { 7 }.boxed());
            let was_finished = running.is_finished();
            assert_eq!(block_on(running.finish()).unwrap(), 7);
            drop(was_finished);
        });
    }

    #[test]
    fn work_that_is_not_polled_releases_its_budget() {
        check(|| {
            let budget = budget();
            let held = budget.clone();
            let mut running = Running::start_on_thread(
                async move {
                    let reserved = held.reserve(1 << 10).await;
                    yield_now();
                    reserved.is_ok()
                }
                .boxed(),
            );
            // A second query between two batches of the first.
            drop(block_on(budget.reserve(1 << 10)).unwrap());
            assert!(block_on(running.finish()).unwrap());
        });
    }

    #[test]
    fn work_whose_result_is_dropped_stops() {
        check(|| {
            let budget = budget();
            let held = budget.clone();
            let running = Running::start_on_thread(
                async move {
                    let _reserved = held.reserve(1 << 10).await;
                    std::future::pending::<()>().await;
                }
                .boxed(),
            );
            drop(running);
            drop(block_on(budget.reserve(1 << 10)).unwrap());
        });
    }
}
