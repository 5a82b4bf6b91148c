//! A warm handle: a store, and what was learned of its levels.
//!
//! Clones share everything. The first question to a level opens it; documents, presence, fragment
//! indexes, object indexes and owner maps stay, within the store's budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use zvf_model::{Batch, Level, LevelReader};
use zvf_store::Store;

use crate::answer::{Answer, Plan};
use crate::error::{BadQuery, QueryError};
use crate::query::Query;
use crate::run::{self, Purpose};
use crate::warm::Warm;

/// A handle to the levels of one store, for asking.
///
/// Cheap to clone, safe to share between threads.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Store,
    levels: Arc<Mutex<BTreeMap<Level, Arc<Warm>>>>,
}

impl Reader {
    /// A reader of `store`. Nothing is read yet.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, levels: Arc::default() }
    }

    /// The store.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Level `level`, opened once.
    ///
    /// # Errors
    ///
    /// When there is no such level, or it cannot be read.
    pub async fn level(&self, level: Level) -> Result<LevelReader, QueryError> {
        Ok(self.warm(level).await?.level.clone())
    }

    /// What `query` will read.
    ///
    /// # Errors
    ///
    /// When the query makes no sense of this store, or what describes the level cannot be read.
    pub async fn plan(&self, query: &Query) -> Result<Plan, QueryError> {
        let mut contexts = run::contexts(self, query).await?.into_iter();
        let Some(first) = contexts.next() else { return Err(BadQuery::NoLevel.into()) };
        let mut plan = first.plan().await?;
        for context in contexts {
            plan.add(&context.plan().await?);
        }
        Ok(plan)
    }

    /// The answer to `query`, all of it.
    ///
    /// # Errors
    ///
    /// When the query makes no sense of this store, something cannot be read, or the answer has more than
    /// 10^8 rows or 4 GiB.
    pub async fn run(&self, query: &Query) -> Result<Answer, QueryError> {
        let (start, before) = (Instant::now(), self.store.io_stats());
        let contexts = run::contexts(self, query).await?;
        let mut answer = run::collect_all(&contexts).await?;
        let after = self.store.io_stats();
        answer.figures.requests = after.requests.saturating_sub(before.requests);
        answer.figures.bytes = after.bytes_read.saturating_sub(before.bytes_read);
        answer.figures.elapsed = start.elapsed();
        Ok(answer)
    }

    /// The answer to `query` batch by batch, in order and in bounded memory. What comes next is read
    /// ahead; dropping the stream cancels it.
    ///
    /// Where a query cannot be answered in parts without saying the same vertex twice (edges and faces
    /// whose vertices are in several batches), the vertex comes again.
    pub fn stream(
        &self,
        query: Query,
    ) -> impl Stream<Item = Result<Batch, QueryError>> + Send + Unpin + use<> {
        let reader = self.clone();
        let batches = async move {
            let mut work = Vec::new();
            for context in run::contexts(&reader, &query).await? {
                let context = Arc::new(context);
                let waves = run::waves(&context, Purpose::Stream).await?;
                work.extend(waves.into_iter().map(|wave| (Arc::clone(&context), wave)));
            }
            Ok::<_, QueryError>(run::batches(work, query.limit))
        };
        let batches = stream::once(batches).try_flatten();
        Box::pin(batches.try_filter(|batch| std::future::ready(!batch.is_empty())).fuse())
    }

    pub(crate) async fn warm(&self, level: Level) -> Result<Arc<Warm>, QueryError> {
        let levels = || self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = levels().get(&level).cloned();
        if let Some(warm) = known {
            return Ok(warm);
        }
        let warm = Arc::new(Warm::open(&self.store, level).await?);
        Ok(Arc::clone(levels().entry(level).or_insert(warm)))
    }
}

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = shareable::<Reader>();
