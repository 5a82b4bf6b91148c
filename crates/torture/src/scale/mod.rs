//! `scale`: the cost of opening, planning and searching a store with millions of chunks.
//!
//! The store is written into memory (`points`): four points in each chunk, which are one object.
//! Each step runs on stores with more and more chunks, with a new handle or a warm one, and its
//! requests and memory are printed:
//!
//! ```text
//! open            documents of the root, the level and its first arrays
//! a box           of 2^3 chunks
//! another box     elsewhere, by the same handle
//! an object       by its id
//! a refresh       of one level after an edit of one chunk, of stores on disk (`refresh`)
//! ```
//!
//! Requests for chunks and their bytes must not depend on the number of chunks, but only on the
//! number of shards that a box crosses. Documents do depend on it: the format lists the non-empty
//! chunks in the document of each array. So do ids of objects, 8 bytes each, which are read as a
//! whole when the first object is looked up.

mod points;
mod refresh;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use archives::faults::FaultStore;
use zvf_model::{Bounds, ObjectId};
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_write::{WriteOptions, Writer};

use self::points::{POINTS, SHARD, schema, write_points};
use crate::remote::create_runtime;
use crate::{HEAP, Report};

/// What opening, planning and finding ask of a store of millions of chunks.
#[derive(clap::Args)]
pub(crate) struct Scale {
    /// Chunks of the largest store; the others have an eighth of the next larger one.
    #[arg(long, default_value_t = 262_144)]
    chunks: u64,
}

/// The requests of one step, and its peak memory.
#[derive(Debug)]
struct Step {
    name: &'static str,
    /// Shards of an array that it reads from.
    shards: u64,
    requests: RequestCounts,
    peak_bytes: usize,
}

impl Scale {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut before: Option<(u64, Vec<Step>)> = None;
        for shards in list_sizes(self.chunks) {
            let (side, steps) = (shards * SHARD, measure_steps(shards * SHARD)?);
            let chunks = side.pow(3);
            for step in &steps {
                report.print_note(&format!("{chunks} chunks: {step:?}"));
            }
            if let Some((fewer, before)) = &before {
                for (small, large) in before.iter().zip(&steps) {
                    report.count(compare_steps(small, large, chunks - fewer));
                }
            }
            before = Some((chunks, steps));
        }
        let mut smaller: Option<refresh::Refreshed> = None;
        for side in [16, 32, 64] {
            if smaller.is_some() && side * side * side > self.chunks {
                break;
            }
            let refreshed = refresh::measure_refresh(side)?;
            report.print_note(&format!("{refreshed:?}"));
            if let Some(smaller) = &smaller {
                report.count(smaller.compare(&refreshed));
            }
            smaller = Some(refreshed);
        }
        Ok(())
    }
}

/// Shards on each axis of stores from small to large.
fn list_sizes(chunks: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut shards = 4;
    while (shards * SHARD).pow(3) < chunks {
        sizes.push(shards);
        shards *= 2;
    }
    sizes.push((4..=shards).find(|shards| (shards * SHARD).pow(3) >= chunks).unwrap_or(shards));
    sizes
}

/// The requests of one step.
#[derive(Debug, Default)]
struct RequestCounts {
    /// Requests for documents, and their bytes.
    documents: (u64, u64),
    /// Requests for chunks of any array, and their bytes.
    chunks: (u64, u64),
    lists: u64,
}

/// Returns the requests since the last call.
fn take_requests(backend: &FaultStore) -> RequestCounts {
    let mut counts = RequestCounts::default();
    for request in backend.requests() {
        let counter = match request.what {
            "get" | "head" if request.path.ends_with("zarr.json") => &mut counts.documents,
            "get" | "head" => &mut counts.chunks,
            _ => {
                counts.lists += 1;
                continue;
            }
        };
        let sent = if request.what == "get" { request.bytes } else { 0 };
        *counter = (counter.0 + 1, counter.1 + sent);
    }
    backend.forget();
    counts
}

/// Writes a store with `side` chunks on each axis, and runs every step on it.
fn measure_steps(side: u64) -> anyhow::Result<Vec<Step>> {
    let (runtime, mut steps) = (create_runtime()?, Vec::new());
    let backend = Arc::new(FaultStore::new());
    runtime.block_on(async {
        let (objects, options) = (Arc::clone(&backend) as _, WriteOptions::default());
        let writer = Writer::in_object_store(objects, "a.zv", schema()?, options).await?;
        write_points(writer, side, true).await
    })?;
    backend.forget();
    let mut step = |name, shards, work: &mut dyn FnMut() -> anyhow::Result<()>| {
        HEAP.reset_peak_usage();
        let held = HEAP.current_usage();
        work()?;
        // The clock goes on when nothing is under way: what is read ahead belongs to the step.
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(1)).await });
        // Never below it, but for rounding of the meter.
        let peak_bytes = HEAP.peak_usage().saturating_sub(held);
        steps.push(Step { name, shards, requests: take_requests(&backend), peak_bytes });
        anyhow::Ok(())
    };
    let mut opened = None;
    step("open", 1, &mut || {
        let (objects, options) = (Arc::clone(&backend) as _, OpenOptions::default());
        opened =
            Some(runtime.block_on(Store::from_object_store(objects, &"a.zv".into(), options))?);
        Ok(())
    })?;
    let reader = Reader::new(opened.context("it is opened")?);
    for (name, first) in [("a box", side / 2 + 3), ("another box", 3)] {
        let low = first as f64;
        step(name, count_crossed_shards(first), &mut || {
            let bounds = Bounds::new(&[low; 3], &[low + 1.999; 3])?;
            let answer = runtime.block_on(reader.run(&Query::all().in_region(bounds)))?.batch;
            ensure!(answer.len() as u64 == 8 * POINTS, "{} points in the box", answer.len());
            Ok(())
        })?;
    }
    let id = ObjectId((side.pow(3) / 2 + 11) as i64);
    step("an object", 1, &mut || {
        let answer = runtime.block_on(reader.run(&Query::all().of_objects([id])))?.batch;
        ensure!(answer.len() as u64 == POINTS, "{} points of the object", answer.len());
        Ok(())
    })?;
    Ok(steps)
}

/// Counts the shards that a box of two chunks per axis crosses if its first chunk has this number
/// on each axis.
const fn count_crossed_shards(first: u64) -> u64 {
    ((first + 1) / SHARD - first / SHARD + 1).pow(3)
}

/// Checks that a step costs no more on a larger store, with `objects` more objects, than on a
/// smaller one per crossed shard, except for the lists in documents and ids.
fn compare_steps(small: &Step, large: &Step, objects: u64) -> anyhow::Result<()> {
    let (few, many) = (&small.requests, &large.requests);
    ensure!(
        many.documents.0 <= few.documents.0 && many.lists <= few.lists,
        "{}: more documents or lists: {few:?}, {many:?}",
        small.name
    );
    let chunks_of_ids = if small.name == "an object" { objects.div_ceil(ROWS) } else { 0 };
    let per_shard = |few: u64| (few * large.shards).div_ceil(small.shards);
    ensure!(
        many.chunks.0 <= per_shard(few.chunks.0) + chunks_of_ids,
        "{}: more requests for chunks: {few:?}, {many:?}",
        small.name
    );
    ensure!(
        many.chunks.1 <= per_shard(few.chunks.1) + chunks_of_ids * ROWS * ID_BYTES,
        "{}: more bytes of chunks: {few:?}, {many:?}",
        small.name
    );
    // A warm handle holds nothing that grows with the store.
    let peak_limit = per_shard(small.peak_bytes as u64) + PEAK_TOLERANCE_BYTES;
    ensure!(
        small.name != "another box" || large.peak_bytes as u64 <= peak_limit,
        "{}: more memory: {small:?}, {large:?}",
        small.name
    );
    Ok(())
}

/// Rows per chunk of manifests; one of ids has no fewer.
const ROWS: u64 = 16_384;
/// Bytes of an id.
const ID_BYTES: u64 = 8;

/// How much the memory of the same work varies between runs.
const PEAK_TOLERANCE_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_not_grow_with_the_store() {
        let [small, large] = [4, 8].map(|shards| measure_steps(shards * SHARD).unwrap());
        let objects = (8 * SHARD).pow(3) - (4 * SHARD).pow(3);
        for (small, large) in small.iter().zip(&large) {
            compare_steps(small, large, objects).unwrap();
        }
        // With a warm handle: one shard of vertices, its index and a span of its cells.
        let warm = &large[2].requests;
        assert_eq!((warm.documents, warm.lists), ((0, 0), 0));
        assert!(warm.chunks.0 <= 9, "{warm:?}");
    }

    #[test]
    fn the_sizes_end_with_the_requested_one() {
        assert_eq!(list_sizes(1), [4]);
        assert_eq!(list_sizes(262_144), [4, 8]);
        assert_eq!(list_sizes(10_000_000), [4, 8, 16, 27]);
    }
}
