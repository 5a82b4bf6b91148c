//! Opens the object index of a level: its document, and the arrays of its layout.

use async_recursion::async_recursion as boxed;
use std::sync::Arc;

use tokio::sync::OnceCell;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_metadata::ManifestLayout;
use zvf_metadata::arrays::{ArrayAttributes as _, IdForm, IndexAttrs as Doc};

use super::{Form, Ids, ObjectIndex, OpenedIndex, dense};
use crate::open::refuse_lost;
use crate::{LevelReader, ObjectId};

impl LevelReader {
    /// Returns the objects of the level; `None` if it has no index. Opened once per handle.
    ///
    /// # Errors
    ///
    /// When the index has an unknown layout, lacks an array that its layout needs, or has fewer
    /// rows than it states.
    #[boxed]
    pub async fn objects(&self) -> Result<Option<ObjectIndex>> {
        let opened = self.opened_objects().get_or_try_init(|| ObjectIndex::open(self)).await?;
        Ok(opened.clone())
    }

    /// Returns the number of objects that the index states, without opening it; `None` without an
    /// index.
    ///
    /// # Errors
    ///
    /// When its document does not state the number.
    pub async fn stated_objects(&self) -> Result<Option<u64>> {
        Ok(index_doc(self).await?.map(|doc| doc.num_objects))
    }
}

/// Returns the document of the index, if the level has one.
async fn index_doc(level: &LevelReader) -> Result<Option<Doc>> {
    let node = level.node();
    let group = if node.lacks(INDEX) { None } else { node.group(INDEX).await? };
    if group.is_none() {
        refuse_lost(node, INDEX, INDEX).await?;
    }
    let doc = group.map(|group| Doc::parse(group.attributes)).transpose();
    doc.at_array(format!("{}/{INDEX}", node.path()))
}

impl ObjectIndex {
    async fn open(level: &LevelReader) -> Result<Option<Self>> {
        let Some(doc) = index_doc(level).await? else { return Ok(None) };
        let path = format!("{}/{INDEX}", level.node().path());
        let place = |error: Error| error.at_array(&path);
        let layout = doc.layout().map_err(|error| place(error.into()))?;
        let rank = to_u64(level.key_rank());
        if let Some(found) = doc.sid_ndim.filter(|found| *found != rank) {
            return Err(place(Error::new(Class::BadShape, "sid_ndim", rank, found)));
        }
        let form = Form::open(level, layout, rank, &path).await?;
        let (slots, rows) = (doc.num_objects, form.rows().await.map_err(place)?);
        if slots > rows {
            return Err(place(Error::new(
                Class::CountMismatch,
                "num_objects",
                Expected::AtMost(rows.into()),
                slots,
            )));
        }
        let ids = match doc.ids().map_err(|error| place(error.into()))? {
            IdForm::Row => Ids::Row,
            IdForm::Column { .. } => {
                let ids = level.node().dense(OBJECT_IDS).await?;
                let ids = ids.ok_or_else(|| missing_array_error(&path, "object_ids"))?;
                dense::check_shape(&ids, &[Some(slots)])?;
                if ids.fill() != ObjectId::RESERVED.0.to_le_bytes() {
                    ids.require(slots, 1); // one object may have the id that is the fill value
                }
                // Fewer are absent where the number is old.
                let absent = slots.saturating_sub(doc.num_present.unwrap_or(0));
                match &form {
                    Form::Blobs(rows) => rows.require(slots, absent),
                    Form::Dense { spans, blocks } => {
                        spans.require(slots, absent);
                        blocks.require(blocks.len(), 1); // fragment 0 at the origin
                    }
                }
                Ids::Column { ids, table: OnceCell::new(), sparse: OnceCell::new() }
            }
        };
        // Iterating over all objects takes time proportional to their number, which is untrusted.
        if slots > MAX_OBJECTS {
            return Err(place(Error::limit("num_objects", MAX_OBJECTS, slots)));
        }
        let cap = level.index_cap();
        Ok(Some(Self { inner: Arc::new(OpenedIndex { path, slots, rank, form, ids, cap }) }))
    }
}

impl Form {
    async fn open(
        level: &LevelReader,
        layout: Option<ManifestLayout>,
        rank: u64,
        path: &str,
    ) -> Result<Self> {
        let node = level.node();
        let Some(layout) = layout else {
            let rows = node.rows(INDEX).await?;
            return rows.map(Self::Blobs).ok_or_else(|| missing_array_error(path, "data"));
        };
        let dense_first = layout == ManifestLayout::DenseManifestsV1;
        for dense in [dense_first, !dense_first] {
            if dense {
                let (spans, blocks) = (node.dense(SPANS).await?, node.dense(BLOCKS).await?);
                if let (Some(spans), Some(blocks)) = (spans, blocks) {
                    dense::check_shape(&spans, &[None, Some(2)])?;
                    dense::check_shape(&blocks, &[None, Some(rank + 1)])?;
                    return Ok(Self::Dense { spans, blocks });
                }
            } else if let Some(rows) = node.rows(MANIFESTS).await? {
                return Ok(Self::Blobs(rows));
            }
        }
        Err(missing_array_error(path, if dense_first { "manifest_spans" } else { "manifests" }))
    }

    async fn rows(&self) -> Result<u64> {
        match self {
            Self::Blobs(rows) => Ok(rows.count().await?),
            Self::Dense { spans, .. } => Ok(spans.len()),
        }
    }
}

fn missing_array_error(path: &str, name: &str) -> Error {
    Error::new(
        Class::NotFound,
        "array",
        "the arrays that the layout of the object index has",
        "nothing",
    )
    .at_array(format!("{path}/{name}"))
}

const INDEX: &str = "object_index";
const MANIFESTS: &str = "object_index/manifests";
const OBJECT_IDS: &str = "object_index/object_ids";
const SPANS: &str = "object_index/manifest_spans";
const BLOCKS: &str = "object_index/manifest_blocks";
/// Maximum number of objects of a level.
const MAX_OBJECTS: u64 = 1 << 27;
