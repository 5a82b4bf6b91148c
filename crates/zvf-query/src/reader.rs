//! A warm handle: a store, and what was learned of its levels.
//!
//! Clones share everything. The first question to a level opens it; documents, presence, fragment
//! indexes, object indexes and owner maps stay, within the store's budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use zvf_model::{AttributeReader, Batch, Kind, Level, LevelReader, LinkAttribute, LinkFamily};
use zvf_store::Store;

use crate::answer::{Answer, Plan};
use crate::error::{BadQuery, QueryError};
use crate::query::{Columns, Query};
use crate::run::{self, Context, Purpose};

/// A handle to the levels of one store, for asking.
///
/// Cheap to clone, safe to share between threads.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Store,
    levels: Arc<Mutex<BTreeMap<Level, Arc<Warm>>>>,
}

/// A level that was opened, and its attributes as far as anybody asked.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) level: LevelReader,
    pub(crate) has_objects: bool,
    names: Mutex<Option<Arc<[String]>>>,
    attributes: Mutex<BTreeMap<String, AttributeReader>>,
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
        let context = self.context(query.clone()).await?;
        context.plan().await
    }

    /// The answer to `query`, all of it.
    ///
    /// # Errors
    ///
    /// When the query makes no sense of this store, something cannot be read, or the answer has more than
    /// 10^8 rows or 4 GiB.
    pub async fn run(&self, query: &Query) -> Result<Answer, QueryError> {
        let (start, before) = (Instant::now(), self.store.io_stats());
        let context = self.context(query.clone()).await?;
        let mut answer = run::collect(&context).await?;
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
            let context = Arc::new(reader.context(query).await?);
            let waves = run::waves(&context, Purpose::Stream).await?;
            Ok::<_, QueryError>(run::batches(context, waves))
        };
        let batches = stream::once(batches).try_flatten();
        Box::pin(batches.try_filter(|batch| std::future::ready(!batch.is_empty())).fuse())
    }

    /// The question, met with the level it is about.
    async fn context(&self, query: Query) -> Result<Context, QueryError> {
        let level = run::choose(self, &query).await?;
        let warm = self.warm(level).await?;
        let kind = kind_of(&warm.level, query.kind)?;
        query.check(kind, warm.level.axes())?;
        query.check_answered(warm.level.node().meta().is_additive())?;
        Context::new(query, warm, kind).await
    }

    pub(crate) async fn warm(&self, level: Level) -> Result<Arc<Warm>, QueryError> {
        let levels = || self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = levels().get(&level).cloned();
        if let Some(warm) = known {
            return Ok(warm);
        }
        let reader = LevelReader::open(&self.store, level).await?;
        let has_objects = reader.node().group("object_index").await?.is_some();
        let warm = Arc::new(Warm {
            level: reader,
            has_objects,
            names: Mutex::default(),
            attributes: Mutex::default(),
        });
        Ok(Arc::clone(levels().entry(level).or_insert(warm)))
    }
}

impl Warm {
    /// The attributes that `columns` asks for, in the order of their names or of the question.
    pub(crate) async fn columns(
        &self,
        columns: &Columns,
    ) -> Result<Vec<AttributeReader>, QueryError> {
        let all;
        let names = match columns {
            Columns::None => &[],
            Columns::Named(names) => names.as_slice(),
            Columns::All => {
                all = self.names().await?;
                &*all
            }
        };
        let mut readers = Vec::with_capacity(names.len());
        for name in names {
            readers.push(self.attribute(name).await?);
        }
        Ok(readers)
    }

    /// The attribute of vertices called `name`.
    pub(crate) async fn attribute(&self, name: &str) -> Result<AttributeReader, QueryError> {
        let known = || self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
        let held = known().get(name).cloned();
        if let Some(reader) = held {
            return Ok(reader);
        }
        match self.level.attribute(name).await? {
            Some(reader) => {
                known().insert(name.to_owned(), reader.clone());
                Ok(reader)
            }
            None => {
                let names = self.names().await?;
                Err(no_such("vertex", name, &names).into())
            }
        }
    }

    /// The attributes of links that `columns` asks for.
    pub(crate) async fn link_attributes(
        &self,
        family: &LinkFamily,
        columns: &Columns,
    ) -> Result<Vec<LinkAttribute>, QueryError> {
        let names = match columns {
            Columns::None | Columns::Named(_) => return Ok(Vec::new()),
            Columns::All => self.level.link_attribute_names().await?.names,
        };
        let mut attributes = Vec::with_capacity(names.len());
        for name in names {
            attributes.extend(family.attribute(&name).await?);
        }
        Ok(attributes)
    }

    async fn names(&self) -> Result<Arc<[String]>, QueryError> {
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let held = known().clone();
        if let Some(names) = held {
            return Ok(names);
        }
        let names: Arc<[String]> = self.level.attribute_names().await?.names.into();
        Ok(Arc::clone(known().insert(names)))
    }
}

/// A name that is none of those there are.
pub(crate) fn no_such(scope: &'static str, name: &str, names: &[String]) -> BadQuery {
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    BadQuery::NoSuchColumn { scope, name: name.to_owned(), known }
}

/// The kind that the level is read as: points, where the store names none.
fn kind_of(level: &LevelReader, asked: Option<Kind>) -> Result<Kind, BadQuery> {
    match asked {
        Some(kind) if level.kinds().is_empty() || level.kinds().contains(&kind) => Ok(kind),
        Some(kind) => Err(BadQuery::NoSuchKind(kind)),
        None => Ok(level.kinds().first().copied().unwrap_or(Kind::PointCloud)),
    }
}

const fn shareable<T: Clone + Send + Sync + 'static>() {}
const _: () = shareable::<Reader>();
