//! Runs work on the rayon pool without blocking the thread that polls.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio::sync::oneshot;

/// Runs `work` on the current pool; returns its result.
pub(crate) async fn run_on_pool<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, wait) = oneshot::channel();
    rayon::spawn(move || {
        // The receiver may have been dropped.
        drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
    });
    match wait.await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_gone) => None, // the pool ended before the work did
    }
}
