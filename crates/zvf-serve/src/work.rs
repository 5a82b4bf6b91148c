//! Work on a thread that may block, with a deadline.

use std::time::Duration;

use crate::refusal::Refusal;
use crate::state::AppState;

/// Runs `work` on a thread that may block, until its deadline. `held` is dropped when it ends.
pub(crate) async fn run_blocking<T: Send + 'static>(
    state: &AppState,
    held: impl Send + 'static,
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let (handle, deadline) = (tokio::runtime::Handle::current(), state.limits.request_timeout);
    let worked = tokio::task::spawn_blocking(move || {
        let _held = held;
        handle.block_on(within(deadline, work))
    });
    let refused = |_panic| Refusal::internal("the request could not be answered");
    worked.await.map_err(refused)?.flatten()
}

/// Waits for `work` until its deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Refusal> {
    tokio::time::timeout(deadline, work).await.map_err(|_elapsed| {
        Refusal::new(hyper::StatusCode::GATEWAY_TIMEOUT, "Timeout", "the request took too long")
            .with_hint("request less: a smaller box, a coarser level, or a limit")
    })
}
