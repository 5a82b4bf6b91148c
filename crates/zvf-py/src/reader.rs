//! Stores that are asked.

use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt as _};
use pyo3::prelude::*;
use serde_json::json;
use zvf::inspect::{AttributeStats, GroupView, ObjectView, StoreSummary};
use zvf::render::{ColourBy, Ground, Options, Size};
use zvf::{Batch, Counts, LevelId, ObjectId, OpenOptions, Reader as Native};

use zvf::Error;

use crate::answer::Answer;
use crate::buffer::Buffer;
use crate::query::Query;
use crate::runtime::{Job, document, lock, outcome, prepare, start};

/// Returns how to open a store.
pub(crate) fn options(storage: Vec<(String, String)>, memory: Option<u64>) -> OpenOptions {
    let defaults = OpenOptions::default();
    let budget_bytes = memory.unwrap_or(defaults.budget_bytes);
    OpenOptions {
        budget_bytes,
        cache_bytes: defaults.cache_bytes.min(budget_bytes / 4),
        storage_options: storage,
        #[cfg(feature = "icechunk")]
        versions: Some(zvf_icechunk::hook()),
        ..defaults
    }
}

/// Opens a store, at its last commit or at `commit`; the outcome of the job is a [`Reader`].
#[pyfunction]
#[pyo3(signature = (address, storage, memory=None, commit=None))]
pub(crate) fn open(
    address: String,
    storage: Vec<(String, String)>,
    memory: Option<u64>,
    commit: Option<u64>,
) -> PyResult<Job> {
    start(move |control| {
        let options = OpenOptions { commit, ..options(storage, memory) };
        let opened = control.wait(zvf::open(&address, options))?;
        Ok(outcome(Reader(opened)))
    })
}

/// A handle to the levels of one store.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Reader(Native);

#[pymethods]
impl Reader {
    /// Returns a reader of the last commit, where others were made since this one was opened; else
    /// `None`.
    fn follow(&self) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let newer = reader.store().follow_commits().await?;
            Ok(outcome(newer.map(|store| Self(Native::new(store)))))
        })
    }

    /// Returns the number of the commit that is read; 0 where there is none.
    fn head(&self) -> u64 {
        self.0.store().journal_head().unwrap_or(0)
    }

    /// Returns what the store is and holds.
    fn summary(&self) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move { document(&StoreSummary::read(reader.store()).await?) })
    }

    /// Returns the root document, as JSON.
    fn root_json(&self) -> PyResult<String> {
        String::from_utf8(self.0.store().root_json().to_vec()).map_err(crate::error::value_error)
    }

    fn run(&self, query: &Query) -> PyResult<Job> {
        let (reader, query) = (self.0.clone(), query.0.clone());
        prepare(async move { Ok(outcome(Answer::from(reader.run(&query).await?))) })
    }

    /// Counts vertices, parts, elements, and tells whether that is all.
    fn count(&self, query: &Query) -> PyResult<Job> {
        let (reader, query) = (self.0.clone(), query.0.clone());
        prepare(async move {
            let counts = reader.count(&query).await?;
            let Counts { level, kind, vertices, parts, elements, complete, truncated, .. } = counts;
            document(&json!({"level": level, "kind": kind, "vertices": vertices, "parts": parts,
                "elements": elements, "complete": complete, "truncated": truncated}))
        })
    }

    /// Returns what a query will read: the text of it, and its numbers.
    fn plan(&self, query: &Query) -> PyResult<Job> {
        let (reader, query) = (self.0.clone(), query.0.clone());
        prepare(async move {
            let plan = reader.plan(&query).await?;
            let mut planned = json!(plan);
            planned["text"] = plan.to_string().into();
            document(&planned)
        })
    }

    /// Returns the answer batch by batch.
    fn batches(&self, query: &Query) -> Batches {
        // The stream is made by the first job: it reads ahead on the runtime.
        Batches(Arc::new(Mutex::new(Step::Pending(Box::new((self.0.clone(), query.0.clone()))))))
    }

    /// Lists the chunk keys of a level, in numeric order.
    fn chunks(&self, level: u32) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let chunks = reader.level(LevelId(level)).await?.chunks().await?;
            let keys: Vec<Vec<i64>> = chunks.iter().map(|key| key.components().to_vec()).collect();
            Ok(outcome(keys))
        })
    }

    /// Lists the keys of the chunks that a query reads vertices of, in numeric order.
    fn chunks_of(&self, query: &Query) -> PyResult<Job> {
        let (reader, query) = (self.0.clone(), query.0.clone().vertices_only());
        prepare(async move {
            let chunks = reader.chunks(&query).await?;
            let keys = chunks.iter().map(|key| key.components().to_vec());
            Ok(outcome(keys.collect::<Vec<_>>()))
        })
    }

    /// Reads objects of a level without their vertices: those of `ids`, or all of the index; of each at most
    /// `references` fragments are listed.
    #[pyo3(signature = (level, ids=None, references=0))]
    fn objects(&self, level: u32, ids: Option<Vec<i64>>, references: usize) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let level = reader.level(LevelId(level)).await?;
            if let Some(ids) = ids {
                let ids: Vec<ObjectId> = ids.into_iter().map(ObjectId).collect();
                return document(&ObjectView::read_ids(&level, &ids, references).await?);
            }
            let Some(index) = level.objects().await? else { return document(&[(); 0]) };
            let rows: Vec<u64> = (0..index.slots()).collect();
            document(&ObjectView::read_rows(&level, &rows, references).await?)
        })
    }

    /// Returns the ids of the rows of the object index of a level; where `present`, of those that have geometry.
    fn object_ids(&self, level: u32, present: bool) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let mut ids = Vec::new();
            if let Some(index) = reader.level(LevelId(level)).await?.objects().await? {
                ids = index.ids(0..index.slots()).await?;
                if present {
                    let rows: Vec<u64> = (0..index.slots()).collect();
                    let manifests = index.manifests(&rows).await?;
                    let mut presence = manifests.iter().map(|manifest| !manifest.is_empty());
                    ids.retain(|_| presence.next().unwrap_or(true));
                }
            }
            Ok(outcome(Buffer::from_numbers(ids.into_iter().map(|id| id.0))))
        })
    }

    /// Reads groups of a level with at most `members` of each.
    fn groups(&self, level: u32, members: usize) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let level = reader.level(LevelId(level)).await?;
            document(&GroupView::read(&level, None, members).await?)
        })
    }

    /// Reads objects that are coefficients of an equation: type, number of the type, coefficients, their names, name.
    fn parametric(&self) -> PyResult<Job> {
        let reader = self.0.clone();
        prepare(async move {
            let shapes = match zvf::model::Parametric::open(reader.store()).await? {
                Some(parametric) => parametric.shapes().await?,
                None => Vec::new(),
            };
            let rows: Vec<_> = shapes
                .into_iter()
                .map(|s| (s.type_name, s.type_id, s.coefficients, s.coefficient_names, s.name))
                .collect();
            Ok(outcome(rows))
        })
    }

    /// Returns what the attributes of a level are like.
    fn statistics(&self, level: u32) -> PyResult<Job> {
        let reader = self.0.clone();
        start(move |control| {
            let progress = &mut |done| control.advance(done);
            let read = reader.statistics_with_progress(LevelId(level), None, progress);
            document(&AttributeStats::list(&control.wait(read)?))
        })
    }

    /// Draws a picture of the answer to a query, as PNG.
    #[pyo3(signature = (query, width, height, colour=None, view=None, background=None))]
    fn render(
        &self,
        py: Python<'_>,
        query: &Query,
        width: u32,
        height: u32,
        colour: Option<String>,
        view: Option<String>,
        background: Option<String>,
    ) -> PyResult<Job> {
        let refused = |error: Error| crate::error::to_py_error(py, error);
        let mut options = Options {
            size: Size::new(width, height).map_err(refused)?,
            view: view.map(|view| view.parse()).transpose().map_err(refused)?,
            ..Options::default()
        };
        if let Some(colour) = colour {
            options.colour = ColourBy::Named(colour);
        }
        if let Some(background) = background {
            options.ground = background.parse::<Ground>().map_err(refused)?;
        }
        let (reader, query) = (self.0.clone(), query.0.clone());
        start(move |control| {
            let picture = control.wait(zvf::render::render(&reader, &query, &options))?;
            let mut file = Vec::new();
            picture.write_png(&mut file)?;
            Ok(Box::new(move |py: Python<'_>| {
                Ok(pyo3::types::PyBytes::new(py, &file).into_any().unbind())
            }))
        })
    }

    /// Returns what may surprise: collected by the handle since it was opened.
    fn notices(&self) -> Vec<String> {
        self.0.store().notices().iter().map(ToString::to_string).collect()
    }

    /// Returns the bytes of decoded cells that are kept.
    fn cached_bytes(&self) -> u64 {
        self.0.store().cached_bytes()
    }
}

type Coming = Box<dyn Stream<Item = Result<Batch, Error>> + Send + Unpin>;

enum Step {
    Pending(Box<(Native, zvf::Query)>),
    Coming(Coming),
    Ended,
}

/// The batches of an answer; each call of `next` starts a job, whose outcome is an answer or `None`.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Batches(Arc<Mutex<Step>>);

#[pymethods]
impl Batches {
    fn next(&self) -> PyResult<Job> {
        let stage = Arc::clone(&self.0);
        start(move |control| {
            let mut stage = lock(&stage);
            let mut coming = match std::mem::replace(&mut *stage, Step::Ended) {
                Step::Pending(asked) => Box::new(asked.0.stream(asked.1)),
                Step::Coming(coming) => coming,
                Step::Ended => return Ok(outcome(None::<Answer>)),
            };
            let next = control.wait(async { coming.next().await.transpose() })?;
            if next.is_some() {
                *stage = Step::Coming(coming);
            }
            Ok(outcome(next.map(Answer::from)))
        })
    }

    /// Ends the reading ahead.
    fn close(&self) {
        *lock(&self.0) = Step::Ended;
    }
}
