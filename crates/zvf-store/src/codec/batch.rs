//! Many chunks undone at once, on as many threads as pay.
//!
//! A chunk of a few kilobytes is undone before another thread has woken up, so small batches stay
//! where they are. Large ones are spread over the current rayon pool; inside a tokio runtime they
//! leave the thread that polls, in one hop.
//!
//! A chunk that grows beyond what ordinary data does, or beyond the share of a thread, waits until all
//! others are done, and these then go one after the other, under one allowance together: however many
//! bombs a batch holds, one of them at a time takes memory.

use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use zvf_format::{Class, Expected, Found};

use super::{Chain, Scratch};
use crate::error::{Op, StoreError};
use crate::num::to_u64;

/// How much may be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// The most one chunk may hold.
    pub(crate) chunk: u64,
    /// The most that each of several threads may make at once.
    pub(crate) thread: u64,
}

/// One chunk to undo.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) chain: Arc<Chain>,
    pub(crate) stored: Bytes,
    pub(crate) caps: Caps,
}

impl Job {
    /// What ordinary data of this length holds at most, as far as several threads may make it at once.
    fn plausible(&self) -> u64 {
        let most = to_u64(self.stored.len()).saturating_mul(PLAUSIBLE_RATIO).saturating_add(SMALL);
        most.min(self.caps.thread).min(self.caps.chunk)
    }

    fn undo(&self, cap: u64, scratch: &mut Scratch) -> Result<Bytes, StoreError> {
        self.chain.undo(self.stored.clone(), cap, scratch)
    }
}

/// What each of `jobs` held, in their order.
pub(crate) async fn undo_many(jobs: Vec<Job>) -> Vec<Result<Bytes, StoreError>> {
    let compressed = jobs.iter().filter(|job| !job.chain.is_empty());
    let work = compressed.fold(0_u64, |sum, job| sum.saturating_add(to_u64(job.stored.len())));
    let jobs: Arc<[Job]> = jobs.into();
    let places: Vec<usize> = (0..jobs.len()).collect();
    let first = Arc::clone(&jobs);
    let mut undone = spread(places, work, move |place, scratch| match first.get(place) {
        None => Err(stopped()),
        Some(job) => job.undo(job.plausible(), scratch),
    })
    .await;
    let grown = |(_, (job, undone)): &(usize, (&Job, &Result<Bytes, StoreError>))| {
        job.plausible() < job.caps.chunk
            && undone.as_ref().is_err_and(|error| error.class() == Class::LimitExceeded)
    };
    let late: Vec<usize> =
        (0..).zip(jobs.iter().zip(&undone)).filter(grown).map(|(place, _)| place).collect();
    if late.is_empty() {
        return undone;
    }
    let places = late.clone();
    let one_by_one = move |_, scratch: &mut Scratch| {
        let mut left = places.iter().filter_map(|&place| Some(jobs.get(place)?.caps.chunk)).max();
        let undo = |&place: &usize| {
            let job = jobs.get(place).ok_or_else(stopped)?;
            let undone = job.undo(job.caps.chunk.min(left.unwrap_or(0)), scratch)?;
            left = left.map(|left| left.saturating_sub(to_u64(undone.len())));
            Ok(undone)
        };
        places.iter().map(undo).collect::<Vec<_>>()
    };
    let undone_late = spread(vec![()], u64::MAX, one_by_one).await.into_iter().flatten();
    for (place, late) in late.into_iter().zip(undone_late) {
        if let Some(slot) = undone.get_mut(place) {
            *slot = late;
        }
    }
    undone
}

/// `run` for each of `items`, in their order; `work` says how many compressed bytes they go through.
pub(crate) async fn spread<I: Send + 'static, T: Send + 'static>(
    items: Vec<I>,
    work: u64,
    run: impl Fn(I, &mut Scratch) -> T + Send + Sync + 'static,
) -> Vec<T> {
    if work < WORTH_A_THREAD {
        return here(items, run);
    }
    match tokio::runtime::Handle::try_current() {
        Err(_no_runtime) => on_the_pool(items, run),
        Ok(runtime) => match runtime.spawn_blocking(move || on_the_pool(items, run)).await {
            Ok(done) => done,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going down, and this future with it: nobody will poll it again.
                Err(_cancelled) => std::future::pending().await,
            },
        },
    }
}

fn here<I, T>(items: Vec<I>, run: impl Fn(I, &mut Scratch) -> T) -> Vec<T> {
    let mut scratch = Scratch::default();
    items.into_iter().map(|item| run(item, &mut scratch)).collect()
}

fn on_the_pool<I: Send, T: Send>(
    items: Vec<I>,
    run: impl Fn(I, &mut Scratch) -> T + Sync,
) -> Vec<T> {
    if items.len() < 2 {
        return here(items, run);
    }
    items.into_par_iter().map_init(Scratch::default, |scratch, item| run(item, scratch)).collect()
}

fn stopped() -> StoreError {
    let (expected, found) = (Expected::Rule("a chunk of the batch"), Found::Text("none"));
    StoreError::refused(Class::Cancelled, Op::Decode, "batch", expected, found)
}

/// Compressed bytes that take longer to undo than a thread takes to wake up.
const WORTH_A_THREAD: u64 = 128 << 10;
/// Ordinary data does not shrink further than this.
const PLAUSIBLE_RATIO: u64 = 64;
/// What may be decoded of anything.
const SMALL: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::super::Step;
    use super::*;

    #[test]
    fn bombs_share_one_allowance_and_spare_the_rest() {
        let chain = Arc::new(Chain::new(vec![Step::Zstd]));
        let job = |plain: Vec<u8>| {
            let stored = zstd::bulk::compress(&plain, 3).unwrap().into();
            Job {
                chain: Arc::clone(&chain),
                stored,
                caps: Caps { chunk: 5 << 20, thread: 1 << 20 },
            }
        };
        let jobs = vec![
            job(vec![1; 4 << 20]),
            job(b"small".to_vec()),
            job(vec![2; 4 << 20]),
            job(vec![3; 1 << 20]),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let undone = runtime.block_on(undo_many(jobs));
        let lengths: Vec<_> =
            undone.iter().map(|u| u.as_ref().map(Bytes::len).map_err(StoreError::class)).collect();
        let limit = Err(Class::LimitExceeded);
        assert_eq!(lengths, [Ok(4 << 20), Ok(5), limit, Ok(1 << 20)]);
    }
}
