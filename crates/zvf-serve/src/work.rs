//! Work on a thread that may block, with a deadline.

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
        handle.block_on(async { tokio::time::timeout(deadline, work).await })
    });
    match worked.await {
        Ok(Ok(done)) => done,
        Ok(Err(_elapsed)) => Err(refuse_timeout()),
        Err(_panic) => Err(Refusal::internal("the request could not be answered")),
    }
}

fn refuse_timeout() -> Refusal {
    Refusal::new(hyper::StatusCode::GATEWAY_TIMEOUT, "Timeout", "the request took too long")
        .with_hint("request less: a smaller box, a coarser level, or a limit")
}
