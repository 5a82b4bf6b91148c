//! Runs long computations on a separate thread, so that the task that polls the build can still
//! drop it.
//!
//! A build is a future, and dropping it cancels the build. A future that computes for seconds
//! inside `poll` cannot be dropped. Here the computation runs beside the future; dropping the
//! future sets a flag, which the computation checks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use zvf_error::{Error, Result};

/// Whether the future that waits for a computation was dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns whether the computation should end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Sets the flag when the future is dropped.
struct Guard(Stop);

/// Runs `compute` on a separate thread and waits for the result.
///
/// # Errors
///
/// When no thread can be started, and as `compute`.
pub(crate) async fn offload<T: Send + 'static>(
    compute: impl FnOnce(&Stop) -> Result<T> + Send + 'static,
) -> Result<T> {
    let guard = Guard(Stop::default());
    let (stop, (sender, done)) = (guard.0.clone(), oneshot::channel());
    let run = move || drop(sender.send(catch_unwind(AssertUnwindSafe(|| compute(&stop)))));
    let thread = std::thread::Builder::new().name("zvf-pyramid".to_owned()).spawn(run);
    drop(thread.map_err(Error::scratch)?); // it is waited for below
    match done.await.expect("the thread sends what it computed") {
        Ok(done) => done,
        Err(panic) => resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn returns_the_result_of_the_computation() {
        assert!(!offload(|stop| Ok(stop.is_set())).await.unwrap());
        let error = offload::<u8>(|_| Err(crate::error::setting_error("size", "more than 0", 0)));
        assert_eq!(error.await.unwrap_err().sentence(), "size: expected more than 0, found 0");
    }

    #[tokio::test]
    async fn a_dropped_future_stops_the_computation() {
        let (sender, receiver) = mpsc::channel();
        let mut future = Box::pin(offload(move |stop: &Stop| {
            while !stop.is_set() {
                std::thread::yield_now();
            }
            sender.send("stopped").unwrap();
            Ok(())
        }));
        assert!(future.as_mut().now_or_never().is_none(), "polling does not compute");
        drop(future);
        assert_eq!(receiver.recv().unwrap(), "stopped");
    }
}
