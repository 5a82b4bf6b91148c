//! A warm handle: a store and its cached levels.
//!
//! Clones share everything. The first query on a level opens it; documents, presence lists,
//! fragment indexes, object indexes and owners stay cached, within the store's budget.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(not(target_arch = "wasm32"))]
use std::time::Instant;

use futures_util::stream::{Stream, StreamExt as _, TryStreamExt as _};
#[cfg(target_arch = "wasm32")]
use web_time::Instant; // the clock of std panics in a browser
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_model::{Batch, Kind, LevelId, LevelReader, ObjectId};
use zvf_store::Store;

use crate::answer::{Answer, Counts, QueryPlan, Statistics};
use crate::error::BadQuery;
use crate::level_cache::LevelCache;
use crate::query::Query;
use crate::run;

/// A handle for querying the levels of one store.
///
/// Cheap to clone, safe to share between threads.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Store,
    levels: Arc<Mutex<Levels>>,
}

/// The caches of open levels, one for each level and each extra kind.
type Levels = BTreeMap<(LevelId, Option<Kind>), Arc<LevelCache>>;

impl Reader {
    /// Creates a reader of `store`. Nothing is read yet.
    pub fn new(store: Store) -> Self {
        Self { store, levels: Arc::default() }
    }

    /// Returns the store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns level `level`, which is opened once.
    ///
    /// # Errors
    ///
    /// When there is no such level, or it cannot be read.
    #[boxed]
    pub async fn level(&self, level: LevelId) -> Result<LevelReader> {
        Ok(self.level_cache(level, None).await?.level.clone())
    }

    /// Returns the geometry of `kind` of level `level`, which is opened once.
    ///
    /// # Errors
    ///
    /// As [`level`](Self::level), and when the level has no such kind.
    #[boxed]
    pub async fn level_of_kind(&self, level: LevelId, kind: Kind) -> Result<LevelReader> {
        let cache = self.level_cache(level, Some(kind)).await?;
        cache.kind(Some(kind))?;
        Ok(cache.level.clone())
    }

    /// Returns the kind of the object `id`, if level `level` has several kinds and one of them has
    /// the object.
    ///
    /// # Errors
    ///
    /// When the level or an index of objects cannot be read.
    #[boxed]
    pub async fn find_kind(&self, level: LevelId, id: ObjectId) -> Result<Option<Kind>> {
        let level_reader = self.level(level).await?;
        let extra: Vec<Kind> = level_reader.extra_kinds().collect();
        let first = level_reader.kinds().first().copied().filter(|_| !extra.is_empty());
        for kind in first.into_iter().chain(extra) {
            let Some(index) = self.level_of_kind(level, kind).await?.objects().await? else {
                continue;
            };
            if index.find(&[id]).await?.iter().any(Option::is_some) {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// Plans `query` without reading rows.
    ///
    /// # Errors
    ///
    /// When the query is invalid for this store, or the description of the level cannot be read.
    #[boxed]
    pub async fn plan(&self, query: &Query) -> Result<QueryPlan> {
        let mut contexts = run::contexts(self, query).await?.into_iter();
        let Some(first) = contexts.next() else { return Err(BadQuery::NoLevel.into()) };
        let mut plan = first.plan().await?;
        for context in contexts {
            plan.add(&context.plan().await?);
        }
        Ok(plan)
    }

    /// Returns the level and the kind that `query` reads, without a plan of it.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    #[boxed]
    pub async fn resolve(&self, query: &Query) -> Result<(LevelId, Kind)> {
        let contexts = run::contexts(self, query).await?;
        let first = contexts.first().ok_or(BadQuery::NoLevel)?;
        Ok((first.level.level(), first.kind))
    }

    /// Returns the chunks from which `query` can read vertices, in key order; if several levels
    /// form one answer, each key once. No rows are read.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    #[boxed]
    pub async fn chunks(&self, query: &Query) -> Result<Vec<ChunkKey>> {
        let mut chunks = Vec::new();
        let contexts = run::contexts(self, query).await?;
        for context in &contexts {
            chunks.append(&mut context.selected_chunks().await?);
        }
        if contexts.len() > 1 {
            chunks.sort_unstable_by(|a, b| a.components().cmp(b.components()));
            chunks.dedup();
        }
        Ok(chunks)
    }

    /// Returns the whole answer to `query`.
    ///
    /// # Errors
    ///
    /// When the query is invalid for this store, something cannot be read, or the answer has more
    /// than 10^8 rows or 4 GiB.
    #[boxed]
    pub async fn run(&self, query: &Query) -> Result<Answer> {
        let (start, before) = (Instant::now(), self.store.io_stats());
        let contexts = run::contexts(self, query).await?;
        let mut answer = run::collect_all(&contexts).await?;
        self.store.check_maps()?;
        let after = self.store.io_stats();
        answer.figures.requests = after.requests - before.requests;
        answer.figures.bytes = after.bytes_read - before.bytes_read;
        answer.figures.elapsed = start.elapsed();
        Ok(answer)
    }

    /// Returns the answer to `query` in parts in which each vertex occurs once and is numbered over
    /// all parts, for graphs and meshes that do not fit in the budget. Returns `None` for others,
    /// and if there is a limit: use [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// When the query is invalid for this store, or the description of the level cannot be read.
    #[boxed]
    pub async fn run_numbered(&self, query: &Query) -> Result<Option<run::NumberedAnswer>> {
        run::run_numbered(self, query).await
    }

    /// Returns the number of vertices, objects and elements in the answer to `query`. Attributes
    /// are read only for conditions, and positions only if a region or the elements need them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// let reader = zvf_query::Reader::new(store);
    /// assert_eq!(reader.count(&zvf_query::Query::all()).await?.vertices, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); the limit on rows applies only to kinds with elements.
    #[boxed]
    pub async fn count(&self, query: &Query) -> Result<Counts> {
        let counts = run::count(self, query).await?;
        self.store.check_maps()?;
        Ok(counts)
    }

    /// Returns minimum, maximum, mean and null count of the coordinates of level `level` and of the
    /// attributes of its vertices, links and objects. Everything is read once, in bounded memory.
    ///
    /// # Errors
    ///
    /// When there is no such level or kind, or a part of it cannot be read.
    #[boxed]
    pub async fn statistics(&self, level: LevelId, kind: Option<Kind>) -> Result<Statistics> {
        self.statistics_with_progress(level, kind, &mut |_vertices| {}).await
    }

    /// Like [`statistics`](Self::statistics), calling `on_progress` with the number of vertices
    /// read so far.
    ///
    /// # Errors
    ///
    /// As [`statistics`](Self::statistics).
    #[boxed]
    pub async fn statistics_with_progress(
        &self,
        level: LevelId,
        kind: Option<Kind>,
        on_progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Statistics> {
        let statistics = run::statistics(self, level, kind, on_progress).await?;
        self.store.check_maps()?;
        Ok(statistics)
    }

    /// Returns the answer to `query` batch by batch, in order and in bounded memory; dropping the stream cancels
    /// it.
    ///
    /// The next batches are prefetched: by tasks of the caller's tokio runtime for a remote store,
    /// by threads for local files. So between two batches the stream holds nothing that another
    /// query on the same handle could wait for. Without a tokio runtime, a remote store is not
    /// prefetched.
    ///
    /// If several batches contain edges or faces of the same vertex, each of them has the vertex.
    pub fn stream(&self, query: Query) -> impl Stream<Item = Result<Batch>> + Send + Unpin + use<> {
        let batches = run::stream(self.clone(), query);
        // As a trait object it is compiled here, and not once more in each crate that polls it.
        batches.try_filter(|batch| std::future::ready(!batch.is_empty())).fuse().boxed()
    }

    /// Opens the geometry of `kind` at a level: a further kind, or the kind of the level.
    pub(crate) async fn level_cache(
        &self,
        level: LevelId,
        kind: Option<Kind>,
    ) -> Result<Arc<LevelCache>> {
        let levels = || self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |kind| levels().get(&(level, kind)).cloned();
        let keep =
            |kind, cache| Arc::clone(levels().entry((level, kind)).or_insert(Arc::new(cache)));
        let base = match find(None) {
            Some(cache) => cache,
            None => {
                let opened = LevelReader::open(&self.store, level).await?;
                keep(None, LevelCache::from_level(opened).await?)
            }
        };
        let extra = kind.filter(|kind| base.level.extra_kinds().any(|extra| extra == *kind));
        let Some(kind) = extra else { return Ok(base) };
        if let Some(cache) = find(Some(kind)) {
            return Ok(cache);
        }
        match base.level.open_kind(kind).await? {
            Some(opened) => Ok(keep(Some(kind), LevelCache::from_level(opened).await?)),
            None => Ok(base),
        }
    }
}

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = shareable::<Reader>();
