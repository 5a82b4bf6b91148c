//! A pipeline of batches: the pool checks one batch of cells while the next is read.
//!
//! The size of a batch follows from the bytes of the previous ones, so that memory remains constant
//! whatever the size of cells.

use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_store::Cells;

use crate::finding::is_content;
use crate::options::Checks;
use crate::parts::{Share, Stage, Work};
use crate::pool::run_on_pool;
use crate::validation::Validation;

/// The result of reading a cell.
pub(crate) type Cell = Result<Option<Bytes>>;

/// Checks the items of a scan that belong to this process: reads them batch by batch, checks each
/// batch on the pool, and passes the results to `take`, in order. Results of other processes come
/// from their records.
pub(crate) async fn scan<'a, P, T>(
    (work, stage, path): (&Work, Stage, &str),
    count: usize,
    read: impl Fn(Range<usize>) -> BoxFuture<'a, Result<(P, u64)>> + Send + Sync,
    check: impl Fn(P) -> T + Send + Sync + 'static,
    mut take: impl FnMut(Range<usize>, T) -> Result<()> + Send,
) -> Result<()>
where
    P: Send + 'static,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let (items, recorded) = match work.begin(stage, path, count)? {
        Share::All => (0..count, None),
        Share::Recorded(scan) => return work.replay(scan, count, take).await,
        Share::Own(scan, range) => (range, Some(scan)),
        Share::Nothing => return Ok(()),
    };
    let check = Arc::new(check);
    let (mut at, mut size) = (items.start, FIRST_BATCH);
    let mut held: Option<(Range<usize>, P)> = None;
    loop {
        let next = at..at.saturating_add(size).min(items.end); // at most the end
        at = next.end;
        // The check starts first, because a local read blocks this thread.
        let checking = async {
            let (range, batch) = held.take()?;
            let check = Arc::clone(&check);
            Some((range, run_on_pool(move || check(batch)).await?))
        };
        let reading =
            async { if next.is_empty() { Ok(None) } else { read(next.clone()).await.map(Some) } };
        let (checked, fetched) = futures_util::join!(checking, reading);
        if let Some((range, seen)) = checked {
            match recorded {
                Some(scan) => work.record(scan, range, &seen).await?,
                None => take(range, seen)?,
            }
        }
        let Some((batch, bytes)) = fetched? else { return Ok(()) };
        size = batch_size(to_u64(next.len()), bytes);
        held = Some((next, batch));
    }
}

/// Scans the cells of `keys` in `arrays`, as [`scan`] does. `take` gets each key with what was found,
/// which is nothing for a chunk that is not in the sample.
pub(crate) async fn scan_cells<T>(
    (run, stage, path): (&mut Validation, Stage, &str),
    arrays: &[&Cells],
    keys: &[ChunkKey],
    check: impl Fn(&ChunkKey, &[Cell]) -> T + Send + Sync + 'static,
    mut take: impl FnMut(&mut Validation, &ChunkKey, Option<T>) + Send,
) -> Result<()>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let (options, work) = (run.options.clone(), run.work.clone());
    let read_batch = |range: Range<usize>| read(&options, arrays, &keys[range]).boxed();
    let check_batch = move |chunks: Vec<ChunkCells>| {
        let check = |(key, cells): ChunkCells| Some(check(&key, &cells?));
        chunks.into_par_iter().map(check).collect::<Vec<_>>()
    };
    let take_batch = |range: Range<usize>, found: Vec<Option<T>>| {
        let done = to_u64(range.end);
        keys[range].iter().zip(found).for_each(|(key, found)| take(run, key, found));
        run.step(path, done, to_u64(keys.len()))
    };
    scan((&work, stage, path), keys.len(), read_batch, check_batch, take_batch).await
}

/// A chunk with its cell in each array; no cells if a sample leaves out the chunk.
pub(crate) type ChunkCells = (ChunkKey, Option<Vec<Cell>>);

/// Returns the cells of the chunks `keys` in `arrays`, as far as `options` select them, and their
/// total bytes.
pub(crate) async fn read(
    options: &Checks,
    arrays: &[&Cells],
    keys: &[ChunkKey],
) -> Result<(Vec<ChunkCells>, u64)> {
    let takes = |key: &&ChunkKey| options.takes_cell(key);
    let taken: Vec<ChunkKey> = keys.iter().filter(takes).copied().collect();
    let found = join_all(arrays.iter().map(|array| array.read_raw_many(&taken).boxed())).await;
    let mut bytes = 0_u64;
    for cell in found.iter().flatten() {
        match cell {
            Ok(cell) => bytes += cell.as_ref().map_or(0, |cell| to_u64(cell.len())),
            Err(error) if is_content(error) => {}
            Err(error) => return Err(error.clone()),
        }
    }
    let mut arrays: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    // Each key was read in each array.
    let next = |cells: &mut std::vec::IntoIter<Cell>| cells.next().unwrap_or(Ok(None));
    let chunk = |key: &ChunkKey| (*key, takes(&key).then(|| arrays.iter_mut().map(next).collect()));
    Ok((keys.iter().map(chunk).collect(), bytes))
}

/// Returns the size of the next batch, after `things` items had `bytes` bytes.
fn batch_size(things: u64, bytes: u64) -> usize {
    // Items without bytes fit in any number; clamped below.
    let fit = BATCH_BYTES.saturating_mul(things).checked_div(bytes).unwrap_or(u64::MAX);
    saturating_usize(fit.clamp(1, things.saturating_mul(MAX_GROWTH).clamp(1, MAX_BATCH)))
}

const FIRST_BATCH: usize = 16;
/// Bytes of a batch; one is checked while another is read.
const BATCH_BYTES: u64 = 16 << 20;
/// The largest growth factor from one batch to the next.
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
            let read = |range: Range<usize>| async { Ok((range, 1)) }.boxed();
            let check = |range: Range<usize>| range.collect::<Vec<_>>();
            let consume = |range: Range<usize>, all: Vec<usize>| {
                assert_eq!(range.len(), all.len());
                consumed.extend(all);
                Ok(())
            };
            let place = (&Work::Whole, Stage::Cells, "0/vertices");
            scan(place, count, read, check, consume).await.unwrap();
            assert_eq!(consumed, (0..count).collect::<Vec<_>>());
        }
    }
}
