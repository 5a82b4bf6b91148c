//! A place where long work can be left.
//!
//! Files of this machine are read at once, so work on them would never wait, and whoever runs it together with
//! something else, such as waiting for somebody to press Ctrl-C, would hear of that when it is too late.

use std::future::poll_fn;
use std::task::Poll;

/// Lets whoever runs this look at something else first, once.
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
    fn it_waits_once() {
        let mut waiting = std::pin::pin!(pause());
        let mut context = Context::from_waker(Waker::noop());
        let polled = [(); 2].map(|()| waiting.as_mut().poll(&mut context).is_ready());
        assert_eq!(polled, [false, true]);
    }
}
