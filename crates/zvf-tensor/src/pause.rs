//! Yield points of long work.
//!
//! Reads of local files complete at once, so work on them would never yield, and a concurrent task,
//! such as one that waits for Ctrl-C, would be starved.

use std::future::poll_fn;
use std::task::Poll;

/// Yields once to other tasks.
pub(crate) async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn waits_once() {
        let mut waiting = std::pin::pin!(pause());
        let mut context = Context::from_waker(Waker::noop());
        let polled = [(); 2].map(|()| waiting.as_mut().poll(&mut context).is_ready());
        assert_eq!(polled, [false, true]);
    }
}
