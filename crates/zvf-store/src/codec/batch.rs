//! Decodes many chunks at once, on as many threads as are worthwhile.
//!
//! A chunk of a few kilobytes is decoded before another thread wakes up, so small batches stay on
//! the calling thread. Large batches are distributed over threads.
//!
//! A chunk that decompresses to more than ordinary data would, or to more than a thread's share, is
//! deferred until all others are done; deferred chunks are decoded one by one. So however many
//! decompression bombs a batch contains, only one at a time takes memory. The part of their output
//! that exceeds ordinary data counts against a single allowance of the batch.

use std::sync::Arc;

use bytes::Bytes;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::num::{saturating_usize, to_u64};

use super::{Chain, Scratch};
use crate::budget::Budget;
use crate::sync::on_threads;

/// Limits on decoded bytes.
#[derive(Clone, Copy)]
pub(crate) struct Caps {
    /// Maximum of one chunk.
    pub(crate) chunk: u64,
    /// Maximum that each of several threads may decode at once.
    pub(crate) thread: u64,
    /// Maximum by which all chunks of a batch together may exceed ordinary data of their stored
    /// lengths.
    pub(crate) batch: u64,
}

impl Caps {
    /// Returns the limits for a chunk whose decoded length is known exactly.
    pub(crate) const fn from_chunk_len(chunk: u64) -> Self {
        Self { chunk, thread: chunk, batch: u64::MAX }
    }
}

/// One chunk to decode.
pub(crate) struct Job {
    pub(crate) chain: Arc<Chain>,
    pub(crate) stored: Bytes,
    pub(crate) caps: Caps,
}

impl Job {
    /// Returns the largest decoded size of ordinary data of this stored length.
    fn max_ordinary_bytes(&self) -> u64 {
        // Saturates above every limit.
        let max = to_u64(self.stored.len())
            .saturating_mul(PLAUSIBLE_RATIO)
            .saturating_add(MIN_ORDINARY_BYTES);
        max.min(self.caps.chunk)
    }

    /// Returns the part that several threads may decode at once.
    fn max_first_bytes(&self) -> u64 {
        self.max_ordinary_bytes().min(self.caps.thread)
    }

    fn decode(&self, cap: u64, scratch: &mut Scratch) -> Result<Bytes> {
        let decoded = self.chain.decode(self.stored.clone(), cap, scratch);
        // The cap is that of the budget, and not more than ordinary data may have.
        let is_ordinary = cap == self.caps.batch / 2 && cap == self.max_ordinary_bytes();
        decoded.map_err(|error| match error.class() == Class::LimitExceeded && is_ordinary {
            true => Budget::refusal(cap, cap.saturating_add(1)),
            false => error,
        })
    }
}

/// Decodes the chunks of `jobs`, and returns the results in their order.
pub(crate) async fn decode_many(jobs: Vec<Job>) -> Vec<Result<Bytes>> {
    let compressed = jobs.iter().filter(|job| !job.chain.is_empty());
    let work = compressed.map(|job| to_u64(job.stored.len())).sum::<u64>();
    let jobs: Arc<[Job]> = jobs.into();
    let places: Vec<usize> = (0..jobs.len()).collect();
    let first = Arc::clone(&jobs);
    let decode = move |place: usize, scratch: &mut Scratch| {
        first[place].decode(first[place].max_first_bytes(), scratch)
    };
    let mut decoded = spread(places, work, decode).await;
    let grown = |(_, (job, decoded)): &(usize, (&Job, &Result<Bytes>))| {
        job.max_first_bytes() < job.caps.chunk
            && decoded.as_ref().is_err_and(|error| error.class() == Class::LimitExceeded)
    };
    let late: Vec<usize> =
        (0..).zip(jobs.iter().zip(&decoded)).filter(grown).map(|(place, _)| place).collect();
    if late.is_empty() {
        return decoded;
    }
    let places = late.clone();
    let one_by_one = move |_, scratch: &mut Scratch| decode_late(&jobs, &places, scratch);
    let decoded_late = spread(vec![()], u64::MAX, one_by_one).await.into_iter().flatten();
    for (place, late) in late.into_iter().zip(decoded_late) {
        decoded[place] = late;
    }
    decoded
}

/// Decodes the jobs at `places`, one after the other, under one allowance.
fn decode_late(jobs: &[Job], places: &[usize], scratch: &mut Scratch) -> Vec<Result<Bytes>> {
    let late = || places.iter().map(|&place| &jobs[place]);
    let mut left = late().map(|job| job.caps.batch).max().unwrap_or_default(); // without jobs, none
    let decode = |job: &Job| {
        let max_ordinary_bytes = job.max_ordinary_bytes();
        // Saturates if there is no allowance; the limit of the chunk still holds.
        let cap = job.caps.chunk.min(max_ordinary_bytes.saturating_add(left));
        let bytes = job.decode(cap, scratch)?;
        // A chunk that decodes to less than ordinary data could uses no allowance.
        let beyond = to_u64(bytes.len()).saturating_sub(max_ordinary_bytes);
        left = left.saturating_sub(beyond); // `cap` kept it below
        Ok(bytes)
    };
    late().map(decode).collect()
}

/// Calls `run` for each of `items`, in order; `work` is the number of compressed bytes to process.
pub(crate) async fn spread<I: Send + 'static, T: Send + 'static>(
    items: Vec<I>,
    work: u64,
    run: impl Fn(I, &mut Scratch) -> T + Send + Sync + 'static,
) -> Vec<T> {
    if work < MIN_THREAD_BYTES {
        let mut scratch = Scratch::default();
        return items.into_iter().map(|item| run(item, &mut scratch)).collect();
    }
    let threads = rayon::current_num_threads().min(saturating_usize(work / MIN_THREAD_BYTES));
    match on_threads(items, threads, || std::future::ready(()), run).await {
        Some(done) => done,
        // The runtime is shutting down, and this future with it: nobody will poll it again.
        None => std::future::pending().await,
    }
}

/// The smallest number of compressed bytes that justifies another thread.
const MIN_THREAD_BYTES: u64 = 128 << 10;
/// The largest compression ratio of ordinary data.
const PLAUSIBLE_RATIO: u64 = 64;
/// Decoded size that is allowed for any chunk, however short.
const MIN_ORDINARY_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::time::Duration;

    use zvf_error::Error;

    use super::super::Step;
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    fn zstd(decoded: &[u8], caps: Caps) -> Job {
        let stored = zstd::bulk::compress(decoded, 3).unwrap().into();
        Job { chain: Arc::new(Chain::new(vec![Step::Zstd])), stored, caps }
    }

    fn lengths(results: &[Result<Bytes>]) -> Vec<Result<usize, Class>> {
        results.iter().map(|u| u.as_ref().map(Bytes::len).map_err(Error::class)).collect()
    }

    /// Returns incompressible bytes, so that a batch of them is decoded by several threads.
    fn noise(len: usize) -> Vec<u8> {
        let mut x = 1_u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()[0]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn large_chunks_share_one_allowance_and_spare_the_others() {
        const M: usize = 1 << 20;
        let limit = Err(Class::LimitExceeded);
        let contents = [vec![1; 4 * M], b"small".to_vec(), vec![2; 4 * M], vec![3; M]];
        for (batch, expected) in [
            (u64::MAX, [Ok(4 * M), Ok(5), Ok(4 * M), Ok(M)]),
            (9 << 20, [Ok(4 * M), Ok(5), Ok(4 * M), Ok(M)]),
            (5 << 20, [Ok(4 * M), Ok(5), limit, Ok(M)]),
            (4 << 20, [Ok(4 * M), Ok(5), limit, limit]),
        ] {
            let caps = Caps { chunk: 5 << 20, thread: 1 << 20, batch };
            let jobs = contents.iter().map(|content| zstd(content, caps)).collect();
            let results = runtime().block_on(decode_many(jobs));
            assert_eq!(lengths(&results), expected, "{batch}");
        }
    }

    #[test]
    fn ordinary_data_beyond_the_budget_is_refused_by_it() {
        const M: usize = 1 << 20;
        let caps = |batch| Caps { chunk: M as u64, thread: 1 << 10, batch };
        for (content, batch, is_refusal) in [
            (noise(2 * M), 2 * M as u64, true),
            (noise(2 * M), u64::MAX, false), // the cap is that of the chunk
            (vec![0; 2 * M], 2 * M as u64, false), // a bomb
        ] {
            let results = runtime().block_on(decode_many(vec![zstd(&content, caps(batch))]));
            let error = results[0].as_ref().unwrap_err();
            assert_eq!(error.class(), Class::LimitExceeded);
            assert_eq!(Budget::is_refusal(error), is_refusal, "{error}");
        }
    }

    #[test]
    fn the_share_of_a_thread_takes_nothing_of_the_allowance() {
        // Each chunk is larger than a thread may decode, and none exceeds ordinary data.
        let caps = Caps { chunk: 1 << 20, thread: 4 << 10, batch: 0 };
        let content = noise(100 << 10);
        let jobs = (0..6).map(|_| zstd(&content, caps)).collect();
        let results = runtime().block_on(decode_many(jobs));
        assert!(results.iter().all(|u| u.as_ref().is_ok_and(|bytes| bytes[..] == content[..])));
    }

    #[test]
    fn answers_keep_their_order_with_and_without_a_runtime() {
        let items: Vec<usize> = (0..1000).collect();
        let run = |item: usize, _: &mut Scratch| item * 2;
        let expected: Vec<usize> = (0..1000).map(|item| item * 2).collect();
        assert_eq!(runtime().block_on(spread(items.clone(), u64::MAX, run)), expected);
        assert_eq!(futures_executor::block_on(spread(items, u64::MAX, run)), expected);
    }

    #[test]
    fn batches_finish_when_every_worker_waits() {
        let (sender, finished) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
            let runtime = runtime.unwrap();
            let content = noise(100 << 10);
            let workers = rayon::current_num_threads();
            let barrier = Barrier::new(workers);
            rayon::broadcast(|_| {
                barrier.wait();
                let jobs =
                    (0..8).map(|_| zstd(&content, Caps::from_chunk_len(100 << 10))).collect();
                let results = runtime.block_on(decode_many(jobs));
                assert!(results.iter().all(Result::is_ok));
            });
            sender.send(workers).unwrap();
        });
        // A batch takes milliseconds; this only ends a test that hangs.
        finished.recv_timeout(Duration::from_secs(120)).expect("the pool is stuck");
    }
}
