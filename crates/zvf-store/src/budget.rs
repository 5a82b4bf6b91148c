//! The limits of one handle: requests and bytes in flight.
//!
//! A request waits, in order of arrival, until it fits; it never fails because others are in
//! flight. A single request that is larger than the limit could never be served and is refused at
//! once. Dropping a permit releases it.
//!
//! A permit is held from before the request until its bytes are returned. Bytes that a caller keeps
//! longer are its own responsibility; [`Budget::reserve`] counts these too.
//!
//! A semaphore counts kibibytes, because its permits are 32 bits wide.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};

use crate::options::OpenOptions;

/// The limits of one handle; cheap to clone, and clones share them.
///
/// ```
/// use zvf_format::Class;
/// use zvf_store::{Budget, OpenOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> zvf_error::Result<()> {
/// let options = OpenOptions { budget_bytes: 3 << 20, cache_bytes: 1 << 20, ..Default::default() };
/// let budget = Budget::new(&options);
/// let held = budget.reserve(1 << 20).await?;
/// assert_eq!(budget.free_bytes(), 1 << 20);
/// drop(held);
/// assert_eq!(budget.reserve(3 << 20).await.unwrap_err().class(), Class::LimitExceeded);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    max_bytes: u64,
}

impl Budget {
    /// Returns the limits that `options` set: the part of the budget that the cache leaves, and at
    /// least one request.
    pub fn new(options: &OpenOptions) -> Self {
        let max_bytes = options.in_flight_bytes().min(MAX_BUDGET_BYTES);
        let requests = options.requests_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            requests: Arc::new(Semaphore::new(requests)),
            bytes: Arc::new(Semaphore::new(usize_from_u32(units(max_bytes)))),
            max_bytes,
        }
    }

    /// Waits until `bytes` more may be held.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` when `bytes` is more than the budget can ever give.
    pub async fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.check(bytes)?;
        Ok(Reservation { _permit: take(&self.bytes, units(bytes)).await })
    }

    /// Reserves `bytes` more if that is possible without waiting.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub(crate) fn try_reserve(&self, bytes: u64) -> Result<Option<Reservation>> {
        self.check(bytes)?;
        let permit = Arc::clone(&self.bytes).try_acquire_many_owned(units(bytes)).ok();
        Ok(permit.map(|permit| Reservation { _permit: Some(permit) }))
    }

    /// Returns the largest single request.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns the number of bytes that could be reserved now without waiting.
    pub fn free_bytes(&self) -> u64 {
        (to_u64(self.bytes.available_permits()) * PERMIT_BYTES).min(self.max_bytes)
    }

    /// Waits until one more request may be sent.
    pub(crate) async fn request(&self) -> Reservation {
        Reservation { _permit: take(&self.requests, 1).await }
    }

    /// Checks that `bytes` could ever be reserved.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        if bytes > self.max_bytes { Err(Self::refusal(self.max_bytes, bytes)) } else { Ok(()) }
    }

    /// Returns the error for a read of more bytes than the budget allows.
    pub(crate) fn refusal(max_bytes: u64, bytes: u64) -> Error {
        Error::limit(ONE_READ, max_bytes, bytes)
    }

    /// Returns whether only a budget prevented a read: a larger one may allow it.
    pub fn is_refusal(error: &Error) -> bool {
        error.class() == Class::LimitExceeded && error.what() == Some(ONE_READ)
    }
}

/// A part of a [`Budget`], released when dropped.
#[derive(Debug)]
#[must_use = "a reservation that is not held is released at once"]
pub struct Reservation {
    _permit: Option<OwnedSemaphorePermit>,
}

async fn take(from: &Arc<Semaphore>, permits: u32) -> Option<OwnedSemaphorePermit> {
    // The semaphores are never closed, so this never returns `None`.
    Arc::clone(from).acquire_many_owned(permits).await.ok()
}

/// Returns the permits for `bytes`, at most 2^28, the largest budget.
fn units(bytes: u64) -> u32 {
    saturating_u32(bytes.div_ceil(PERMIT_BYTES))
}

const ONE_READ: &str = "bytes of one read";
const PERMIT_BYTES: u64 = 1 << 10;
/// The largest budget: it is counted in kibibytes and must fit the semaphore of a 32-bit target.
const MAX_BUDGET_BYTES: u64 = (1 << 28) * PERMIT_BYTES;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn budget(bytes: u64, requests: usize) -> Budget {
        Budget::new(&OpenOptions {
            budget_bytes: bytes,
            cache_bytes: 0,
            requests_in_flight: requests,
            ..OpenOptions::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn waits_below_the_cap_and_refuses_above_it() {
        let budget = budget(4096, 1);
        let (a, b) = (budget.reserve(3072).await.unwrap(), budget.reserve(1).await.unwrap());
        assert_eq!(budget.free_bytes(), 0);
        let pending = tokio::time::timeout(Duration::from_secs(60), budget.reserve(1));
        assert!(pending.await.is_err());
        drop(b);
        let c = budget.reserve(1024).await.unwrap();
        drop((a, c));
        assert_eq!(budget.free_bytes(), 4096);
        assert_eq!(
            budget.reserve(4097).await.unwrap_err().to_string(),
            "LimitExceeded, bytes of one read: expected at most 4096, found 4097; \
             more than the limit allows: request less, or raise the limit",
        );
        drop(budget.reserve(0).await.unwrap());
    }

    #[tokio::test]
    async fn try_reserve_does_not_wait() {
        let budget = budget(4096, 1);
        let reserved = budget.try_reserve(3072).unwrap().unwrap();
        assert!(budget.try_reserve(2048).unwrap().is_none());
        drop((budget.try_reserve(1024).unwrap().unwrap(), reserved));
        assert!(budget.try_reserve(4096).unwrap().is_some());
        assert_eq!(budget.try_reserve(4097).unwrap_err().class(), Class::LimitExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_request_is_not_starved_by_small_ones() {
        let budget = budget(4096, 1);
        let first = budget.reserve(1024).await.unwrap();
        let large = tokio::spawn({
            let budget = budget.clone();
            async move { drop(budget.reserve(4096).await.unwrap()) }
        });
        tokio::task::yield_now().await;
        let small = tokio::spawn({
            let budget = budget.clone();
            async move { drop(budget.reserve(1024).await.unwrap()) }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!large.is_finished() && !small.is_finished());
        drop(first);
        large.await.unwrap();
        small.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn no_setting_makes_a_budget_that_cannot_be_used() {
        for (bytes, requests) in [(0, 0), (1, usize::MAX), (u64::MAX, usize::MAX)] {
            let budget = budget(bytes, requests);
            drop(budget.request().await);
            drop(budget.reserve(bytes.min(1 << 38)).await.unwrap());
        }
        assert_eq!(budget(u64::MAX, 1).max_bytes(), 1 << 38);
    }
}
