//! Yields before long work, so that a query can be moved to another thread.
//!
//! A query whose cells are all cached never becomes pending by itself: its first poll would do all
//! the work, however long that takes. A caller that polls on a thread that must stay responsive,
//! such as that of an interpreter, needs short answers from the first poll and a pending future
//! otherwise. So the query is pending once before each long piece of work.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;

use zvf_error::Result;
use zvf_format::num::to_u64;

use super::{Context, WorkUnit};

impl Context {
    /// Yields before a work unit if it and the work since the last yield exceed the limit of a poll.
    pub(super) async fn yield_before(&self, unit: &WorkUnit) -> Result<()> {
        let bytes = self.estimate_bytes(unit).await?.clamp(MIN_UNIT_BYTES, MAX_POLL_BYTES + 1);
        let before = self.since_yield.fetch_add(bytes, Ordering::Relaxed);
        // Estimates, only compared.
        if before.saturating_add(bytes) > MAX_POLL_BYTES {
            self.since_yield.store(0, Ordering::Relaxed);
            yield_once().await;
        }
        Ok(())
    }

    /// Yields before work on `items` chunks or objects if they are many.
    pub(super) async fn yield_before_many(&self, items: usize) {
        if items > MAX_POLL_ITEMS {
            yield_once().await;
        }
    }

    /// Estimates the bytes that a work unit processes, by averages of the level; nothing is
    /// allocated.
    async fn estimate_bytes(&self, unit: &WorkUnit) -> Result<u64> {
        let (vertices, chunks) = (self.level.vertex_count(), to_u64(self.chunks.len()));
        let (items, all, row_bytes) = match unit {
            WorkUnit::Chunks(places) => (places.len(), chunks, self.row_bytes()),
            WorkUnit::Objects(rows) => (rows.len(), self.index().await?.slots(), self.row_bytes()),
            WorkUnit::Elements { works, .. } => {
                let items = works.iter().map(|work| work.chunks.len()).sum::<usize>();
                (items, chunks, self.element_row_bytes())
            }
        };
        let vertices_per_item = vertices.checked_div(all).unwrap_or(vertices).max(1);
        Ok(to_u64(items).saturating_mul(vertices_per_item).saturating_mul(row_bytes))
    }
}

/// Returns pending once.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Maximum number of bytes that one poll processes, which takes a few milliseconds.
const MAX_POLL_BYTES: u64 = 4 << 20;
/// Minimum weight of a work unit, so that many empty work units also yield.
const MIN_UNIT_BYTES: u64 = 64 << 10;
/// Maximum number of chunks or objects that one poll processes.
const MAX_POLL_ITEMS: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn is_pending_once_and_wakes_its_task() {
        let mut yielding = std::pin::pin!(yield_once());
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert_eq!(yielding.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(yielding.as_mut().poll(&mut context), Poll::Ready(()));
        futures_executor::block_on(yield_once()); // returns only if it is woken
    }
}
