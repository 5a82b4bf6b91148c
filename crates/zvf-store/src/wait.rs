//! Waits for a future without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::task::coop::unconstrained;

/// Runs `future` on this thread, which sleeps while it waits. A future that waits for a network
/// needs a runtime on other threads.
///
/// The future is exempt from the cooperative budget of a tokio task. Because the surrounding task
/// never yields, an exhausted budget would make every poll return `Pending` forever.
///
/// ```
/// assert_eq!(zvf_store::block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(unconstrained(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_on_ignores_the_budget_of_the_task() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let steps = runtime.block_on(async {
            let door = tokio::sync::Semaphore::new(1);
            block_on(async {
                for _ in 0..1000 {
                    drop(door.acquire().await);
                }
                1000
            })
        });
        assert_eq!(steps, 1000);
    }
}
