//! A pipeline of batches: the pool checks one batch of cells while the next is read.
//!
//! How many cells make a batch follows from what the last ones weighed, so that memory stays the same
//! whatever a cell holds.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_store::Cells;

use crate::parts::{Share, Stage, Work};
use crate::pool::run_on_pool;
use crate::stop::Stop;

/// The result of reading a cell.
pub(crate) type Cell = Result<Option<Bytes>>;

/// Checks the items of a scan that are this process's: reads them batch by batch, checks each batch on the pool, and passes
/// the results to `take`, in order. Results of other processes come from their records.
pub(crate) async fn scan<P, T>(
    (work, stage, path): (&Work, Stage, &str),
    count: usize,
    read: impl AsyncFn(Range<usize>) -> Result<(P, u64)>,
    check: impl Fn(P) -> T + Send + Sync + 'static,
    mut take: impl FnMut(Range<usize>, T) -> Result<(), Stop>,
) -> Result<(), Stop>
where
    P: Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    match work.begin(stage, path, count)? {
        Share::All => {
            batches(0..count, read, check, async |range, result| take(range, result)).await
        }
        Share::Recorded(scan) => work.replay(scan, count, take).await,
        Share::Own(scan, range) => {
            let record =
                async |range: Range<usize>, result: T| work.record(scan, range, &result).await;
            batches(range, read, check, record).await
        }
        Share::Nothing => Ok(()),
    }
}

/// Reads batches of items, checks each on the pool, and passes the results to `take`, in order.
async fn batches<P, T>(
    things: Range<usize>,
    read: impl AsyncFn(Range<usize>) -> Result<(P, u64)>,
    check: impl Fn(P) -> T + Send + Sync + 'static,
    mut take: impl AsyncFnMut(Range<usize>, T) -> Result<(), Stop>,
) -> Result<(), Stop>
where
    P: Send + 'static,
    T: Send + 'static,
{
    let check = Arc::new(check);
    let (mut at, mut size) = (things.start, FIRST_BATCH);
    let mut held: Option<(Range<usize>, P)> = None;
    loop {
        let next = at..at.saturating_add(size).min(things.end); // at most the end
        at = next.end;
        let (range, work) = match held.take() {
            None => (None, None),
            Some((range, batch)) => {
                let check = Arc::clone(&check);
                (Some(range), Some(run_on_pool(move || check(batch))))
            }
        };
        // The work is started first: a local read holds this thread.
        let work = async {
            match work {
                Some(work) => work.await,
                None => None,
            }
        };
        let reading =
            async { if next.is_empty() { Ok(None) } else { read(next.clone()).await.map(Some) } };
        let (done, fetched) = futures_util::join!(work, reading);
        if let (Some(range), Some(done)) = (range, done) {
            take(range, done).await?;
        }
        let Some((batch, bytes)) = fetched? else { return Ok(()) };
        size = batch_size(to_u64(next.len()), bytes);
        held = Some((next, batch));
    }
}

/// Returns the cells `keys` of each of `arrays`, and how many bytes they hold together.
pub(crate) async fn read(arrays: &[&Cells], keys: &[ChunkKey]) -> Result<(Vec<Vec<Cell>>, u64)> {
    let cells = join_all(arrays.iter().map(|array| array.read_raw_many(keys))).await;
    let held = cells.iter().flatten().flatten().flatten();
    let bytes = held.map(|bytes| to_u64(bytes.len())).sum::<u64>();
    for cell in cells.iter().flatten() {
        if let Err(error) = cell
            && !crate::finding::is_content(error)
        {
            return Err(error.clone());
        }
    }
    Ok((cells, bytes))
}

/// Returns the size of the next batch, after `things` items had `bytes` bytes.
fn batch_size(things: u64, bytes: u64) -> usize {
    // Things without bytes fit in any number; clamped below.
    let fit = BATCH_BYTES.saturating_mul(things).checked_div(bytes).unwrap_or(u64::MAX);
    saturating_usize(fit.clamp(1, things.saturating_mul(MAX_GROWTH).clamp(1, MAX_BATCH)))
}

const FIRST_BATCH: usize = 16;
/// Bytes of a batch; one is checked while another is read.
const BATCH_BYTES: u64 = 16 << 20;
/// Maximum growth factor from one batch to the next.
const MAX_GROWTH: u64 = 8;
const MAX_BATCH: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_the_weight_of_cells() {
        for (count, bytes, next) in
            [(16, 0, 128), (16, 16 << 20, 16), (16, 1 << 30, 1), (4096, 1, 4096), (1, 64 << 20, 1)]
        {
            assert_eq!(batch_size(count, bytes), next, "{count} {bytes}");
        }
    }

    #[tokio::test]
    async fn batches_are_consumed_once_and_in_order() {
        for count in [0, 1, 16, 17, 1000] {
            let mut consumed = Vec::new();
            let read = async |range: Range<usize>| Ok((range, 1));
            let check = |range: Range<usize>| range.collect::<Vec<_>>();
            let consume = async |range: Range<usize>, all: Vec<usize>| {
                assert_eq!(range.len(), all.len());
                consumed.extend(all);
                Ok(())
            };
            batches(0..count, read, check, consume).await.unwrap();
            assert_eq!(consumed, (0..count).collect::<Vec<_>>());
        }
    }
}
