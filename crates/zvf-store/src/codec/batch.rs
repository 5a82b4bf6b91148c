//! Many chunks undone at once, on as many threads as pay.
//!
//! A chunk of a few kilobytes is undone before another thread has woken up, so small batches stay
//! where they are. Large ones are spread over the current rayon pool; inside a tokio runtime they
//! leave the thread that polls, in one hop.

use bytes::Bytes;
use rayon::prelude::*;
use std::sync::Arc;

use super::{Chain, Scratch};
use crate::error::StoreError;
use crate::num::to_u64;

/// One chunk to undo.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) chain: Arc<Chain>,
    pub(crate) stored: Bytes,
    /// The most it may hold.
    pub(crate) cap: u64,
}

impl Job {
    fn undo(self, scratch: &mut Scratch) -> Result<Bytes, StoreError> {
        self.chain.undo(self.stored, self.cap, scratch)
    }

    /// Bytes that a decoder has to go through.
    fn work(&self) -> u64 {
        if self.chain.is_empty() { 0 } else { to_u64(self.stored.len()) }
    }
}

/// What each of `jobs` held, in their order.
pub(crate) async fn undo_many(jobs: Vec<Job>) -> Vec<Result<Bytes, StoreError>> {
    let work = jobs.iter().fold(0_u64, |sum, job| sum.saturating_add(job.work()));
    if work < WORTH_A_THREAD {
        return undo_here(jobs);
    }
    match tokio::runtime::Handle::try_current() {
        Err(_no_runtime) => undo_spread(jobs),
        Ok(runtime) => match runtime.spawn_blocking(move || undo_spread(jobs)).await {
            Ok(done) => done,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down: nobody will poll the answer again.
                Err(_cancelled) => Vec::new(),
            },
        },
    }
}

fn undo_here(jobs: Vec<Job>) -> Vec<Result<Bytes, StoreError>> {
    let mut scratch = Scratch::default();
    jobs.into_iter().map(|job| job.undo(&mut scratch)).collect()
}

fn undo_spread(jobs: Vec<Job>) -> Vec<Result<Bytes, StoreError>> {
    if jobs.len() == 1 {
        return undo_here(jobs);
    }
    jobs.into_par_iter().map_init(Scratch::default, |scratch, job| job.undo(scratch)).collect()
}

/// Compressed bytes that take longer to undo than a thread takes to wake up.
const WORTH_A_THREAD: u64 = 128 << 10;
