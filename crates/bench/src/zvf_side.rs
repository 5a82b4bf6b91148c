//! The workloads on zvf, on open handles: documents and indexes are loaded, no cells are cached.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use futures_executor::block_on;
use zvf_format::key::ChunkKey;
use zvf_model::{Bounds, LevelId, LevelReader, ObjectId};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_store::{OpenOptions, Store};

use crate::clock::{measure_repeated, measure_runs};
use crate::parts::work::{Ask, CELL, Work};
use crate::row::Cost;

/// Open handles.
#[derive(Debug)]
pub(crate) struct Ours {
    stores: PathBuf,
    readers: BTreeMap<&'static str, (Store, Reader)>,
}

impl Ours {
    /// Creates handles for the stores in a folder; opens none yet.
    pub(crate) fn new(stores: &Path) -> Self {
        Self { stores: stores.to_owned(), readers: BTreeMap::new() }
    }

    /// Opens the store and loads its documents and indexes.
    pub(crate) fn warm_up(&mut self, work: &Work) -> anyhow::Result<()> {
        if !self.readers.contains_key(work.store) {
            let path = self.stores.join(format!("{}.zarrvectors", work.store));
            let path = path.to_str().context("a folder whose name is not UTF-8")?;
            let store = block_on(Store::open(path, OpenOptions::default()))?;
            self.readers.insert(work.store, (store.clone(), Reader::new(store)));
        }
        for query in build_queries(work)? {
            block_on(self.find_reader(work)?.1.run(&query))?;
        }
        Ok(())
    }

    /// Returns the number of rows of the workload, and its reads.
    pub(crate) fn count_rows(&self, work: &Work) -> anyhow::Result<(u64, Cost)> {
        let (queries, (store, reader)) = (build_queries(work)?, self.find_reader(work)?);
        if work.overlaps() {
            clear_cells(store, reader, &queries)?;
        }
        let (mut count, before) = (0, store.io_stats());
        for query in &queries {
            count += block_on(reader.run(query))?.batch.len() as u64;
        }
        Ok((count, Cost::from_stats(&before, &store.io_stats())))
    }

    /// Returns the seconds that the workload takes. If queries may reuse what earlier ones read,
    /// decoded cells are dropped before the clock starts.
    pub(crate) fn run(&self, work: &Work) -> anyhow::Result<f64> {
        let (queries, (store, reader)) = (build_queries(work)?, self.find_reader(work)?);
        if work.overlaps() {
            clear_cells(store, reader, &queries)?;
            return measure_runs(1, || run_queries(reader, &queries));
        }
        measure_repeated(|| run_queries(reader, &queries))
    }

    /// Returns the files of the cells that the workload touches, which every reader must read.
    pub(crate) fn list_files(&self, work: &Work) -> anyhow::Result<Vec<PathBuf>> {
        let (store, _) = self.find_reader(work)?;
        let level = block_on(LevelReader::open(store, LevelId(0)))?;
        let folder = self.stores.join(format!("{}.zarrvectors/0", work.store));
        let chunks: Vec<ChunkKey> = match &work.ask {
            Ask::Objects(ids) => {
                let index = block_on(level.objects())?.context("a store without objects")?;
                let ids: Vec<ObjectId> = ids.iter().map(|id| ObjectId(*id)).collect();
                let rows: Vec<u64> = block_on(index.find(&ids))?.into_iter().flatten().collect();
                let followed = block_on(level.follow(&index, &rows))?;
                followed.chunks.iter().map(|chunk| *chunk.chunk()).collect()
            }
            Ask::Scan(_) => block_on(level.chunks())?.iter().collect(),
            Ask::Boxes { boxes, .. } => {
                let all = block_on(level.chunks())?;
                boxes
                    .iter()
                    .flat_map(|bounds| all.iter().filter(|key| chunk_meets_box(key, bounds)))
                    .collect()
            }
        };
        let arrays = work.list_arrays().into_iter().map(|name| folder.join(name).join("c"));
        let in_array = |array: PathBuf| {
            chunks.iter().map(move |key| array.join(key.to_string().replace('.', "/")))
        };
        Ok(arrays.flat_map(in_array).collect())
    }

    fn find_reader(&self, work: &Work) -> anyhow::Result<&(Store, Reader)> {
        self.readers.get(work.store).context("a store that was not opened")
    }
}

/// Drops decoded cells; what planning needs is read again.
fn clear_cells(store: &Store, reader: &Reader, queries: &[Query]) -> anyhow::Result<()> {
    store.clear_cache();
    for query in queries {
        block_on(reader.plan(query))?;
    }
    Ok(())
}

fn run_queries(reader: &Reader, queries: &[Query]) -> anyhow::Result<()> {
    for query in queries {
        std::hint::black_box(block_on(reader.run(query))?);
    }
    Ok(())
}

/// Returns whether the chunk meets the box.
fn chunk_meets_box(key: &ChunkKey, [low, high]: &[[f64; 3]; 2]) -> bool {
    let sides = low.iter().zip(high).zip(key.components());
    sides.into_iter().all(|((low, high), at)| {
        let at = *at as f64;
        (low / CELL).floor() <= at && at <= (high / CELL).floor()
    })
}

fn build_queries(work: &Work) -> anyhow::Result<Vec<Query>> {
    // A single query leaves nothing behind; queries that overlap may reuse what the first ones
    // read.
    let no_columns = |query: Query| {
        let query = query.columns(Columns::None);
        if work.overlaps() { query } else { query.uncached() }
    };
    match &work.ask {
        Ask::Boxes { boxes, whole } => boxes
            .iter()
            .map(|[low, high]| {
                let mode = if *whole { Mode::Cells } else { Mode::Inside };
                Ok(no_columns(Query::all().in_region(Bounds::new(low, high)?).mode(mode)))
            })
            .collect(),
        Ask::Objects(ids) => {
            Ok(vec![no_columns(Query::all().of_objects(ids.iter().map(|id| ObjectId(*id))))])
        }
        Ask::Scan(names) => {
            let names = names.iter().map(|name| (*name).into()).collect();
            Ok(vec![Query::all().columns(Columns::Named(names)).uncached()])
        }
    }
}
