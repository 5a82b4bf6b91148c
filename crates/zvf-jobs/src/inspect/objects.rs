//! Objects from their index: rows, ids, fragments, and bounds without reading vertices.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value as Json;
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_format::{Class, Expected};
use zvf_model::{Extent, LevelId, LevelReader, ObjectId, ObjectManifest};
use zvf_query::BadQuery;
use zvf_store::Store;

use super::{json, overflow_error};
use crate::Error;

/// One object of a level.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ObjectView {
    /// Its id.
    pub id: i64,
    /// Its kind, if the store has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its row in the index.
    pub row: u64,
    /// Number of its fragments.
    pub fragments: u64,
    /// Number of their chunks.
    pub chunks: u64,
    /// The box of these chunks, which contains the object: lowest and highest corner, in spatial
    /// axes.
    pub bounds: Option<[Vec<f64>; 2]>,
    /// The first chunks and fragments, in order.
    pub references: Vec<(String, u64)>,
    /// Its attributes.
    pub attributes: serde_json::Map<String, Json>,
}

impl ObjectView {
    /// Reads the objects in the rows `rows` of the index of `level`, each with its first `max_references` references.
    ///
    /// # Errors
    ///
    /// When the level has no object index, or it cannot be read; [`Class::LimitExceeded`] when more than 2^24 references
    /// would be listed.
    #[boxed]
    pub async fn read_rows(
        level: &LevelReader,
        rows: &[u64],
        max_references: usize,
    ) -> Result<Vec<Self>, Error> {
        let Some(index) = level.objects().await? else { return Err(no_index_error()) };
        let (ids, manifests) = (index.ids_of(rows).await?, index.manifests(rows).await?);
        let mut views = Vec::with_capacity(rows.len());
        let mut left = MAX_REFERENCES;
        for (id, manifest) in ids.into_iter().zip(&manifests) {
            views.push(view(level, id, manifest, (max_references, &mut left))?);
        }
        for attribute in level.object_attributes().await? {
            let values = attribute.rows(rows).await?;
            for (at, view) in views.iter_mut().enumerate() {
                view.attributes.insert(attribute.name().to_owned(), json::row(&values, at));
            }
        }
        // A reserved row that no writer has written yet is no object.
        views.retain(|view| view.id != ObjectId::RESERVED.0 || view.fragments > 0);
        Ok(views)
    }

    /// Reads the objects called `ids`, in that order.
    ///
    /// ```no_run
    /// # async fn run(level: &zvf_model::LevelReader) -> Result<(), zvf_error::Error> {
    /// let objects = zvf_jobs::inspect::ObjectView::read_ids(level, &[zvf_model::ObjectId(7)], 10).await?;
    /// assert_eq!(objects[0].id, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read_rows`](Self::read_rows), and when there is no such object; the hint names nearby
    /// ids.
    #[boxed]
    pub async fn read_ids(
        level: &LevelReader,
        ids: &[ObjectId],
        max_references: usize,
    ) -> Result<Vec<Self>, Error> {
        let Some(index) = level.objects().await? else { return Err(no_index_error()) };
        let mut rows = Vec::with_capacity(ids.len());
        for (row, id) in index.find(ids).await?.into_iter().zip(ids) {
            let Some(row) = row else {
                let near = nearest_ids(level, *id).await;
                return Err(no_object_error(level, *id)?.or_hint(|| near));
            };
            rows.push(row);
        }
        Self::read_rows(level, &rows, max_references).await
    }
}

/// Adds advice that the layer of the error could not give: the existing levels for a missing level,
/// and the nearest ids for a missing object. It may read from `store`; if that fails, the error
/// stays unchanged.
#[boxed]
pub async fn advise(error: Error, store: &Store) -> Error {
    let hint = match absent_level(&error, store) {
        Some(hint) => Some(hint),
        None => absent_object(&error, store).await,
    };
    error.or_hint(|| hint)
}

fn absent_level(error: &Error, store: &Store) -> Option<String> {
    let is_level = error.key().is_some_and(|key| key.parse::<u32>().is_ok());
    if error.class() != Class::NotFound || !is_level {
        return None;
    }
    let levels: Vec<String> = store.level_numbers().iter().map(u32::to_string).collect();
    Some(match levels.as_slice() {
        [] => "the store lists no level".to_owned(),
        [only] => format!("the store has level {only} only"),
        levels => format!("the store has levels {}", levels.join(", ")),
    })
}

async fn absent_object(error: &Error, store: &Store) -> Option<String> {
    let Some(BadQuery::NoSuchObject(id)) = error.cause_as() else { return None };
    let first = *store.level_numbers().first()?;
    let level = LevelReader::open(store, LevelId(first)).await.ok()?;
    nearest_ids(&level, *id).await
}

/// Returns a text about the ids of a level, for a request for the missing id `absent`.
async fn nearest_ids(level: &LevelReader, absent: ObjectId) -> Option<String> {
    let index = level.objects().await.ok()??;
    let slots = index.slots();
    let mut ids = index.ids(0..slots.min(LOOKED_AT)).await.ok()?;
    ids.sort_unstable();
    let (first, last) = (ids.first()?, ids.last()?);
    let place = ids.partition_point(|id| *id < absent);
    let beside = [place.checked_sub(1), Some(place)].into_iter().flatten();
    let beside = beside.filter_map(|at| ids.get(at)).min_by_key(|id| id.0.abs_diff(absent.0))?;
    if slots > LOOKED_AT {
        return Some(format!("the level has {slots} objects, such as {first} and {last}"));
    }
    Some(format!("did you mean {beside}? the level has {slots} objects, from {first} to {last}"))
}

fn view(
    level: &LevelReader,
    id: ObjectId,
    manifest: &ObjectManifest,
    (max_references, left): (usize, &mut u64),
) -> Result<ObjectView, Error> {
    let mut chunks: BTreeSet<Vec<i64>> = BTreeSet::new();
    let mut references = Vec::new();
    for block in manifest.view().blocks() {
        let chunk: Vec<i64> = block.chunk.iter().map(|at| at.get()).collect();
        let key = ChunkKey::new(&chunk)?;
        let room = max_references.saturating_sub(references.len());
        let listed = block.fragments.len().min(to_u64(room));
        *left = left.checked_sub(listed).ok_or_else(|| {
            let most = Expected::AtMost(MAX_REFERENCES.into());
            let error = Error::new(Class::LimitExceeded, "fragments that are listed", most, "more");
            error.at_object(id.0)
        })?;
        let fragments = block.fragments.iter().take(room);
        references.extend(fragments.map(|fragment| (key.to_string(), fragment)));
        chunks.insert(chunk);
    }
    Ok(ObjectView {
        id: id.0,
        kind: kind(level),
        row: manifest.row(),
        fragments: manifest
            .view()
            .len()
            .ok_or_else(|| overflow_error("fragments of an object").at_object(id.0))?,
        chunks: to_u64(chunks.len()),
        bounds: bounds(level, &chunks),
        references,
        attributes: serde_json::Map::new(),
    })
}

/// Returns the kind of the objects of a level, if the store has several kinds.
fn kind(level: &LevelReader) -> Option<String> {
    let several = level.store().root().zarr_vectors.geometry_types.len() > 1;
    level.kinds().first().filter(|_| several).map(ToString::to_string)
}

/// Returns the box of chunks.
fn bounds(level: &LevelReader, chunks: &BTreeSet<Vec<i64>>) -> Option<[Vec<f64>; 2]> {
    let corners = |chunk: &Vec<i64>| super::chunk_bounds(level, &ChunkKey::new(chunk).ok()?);
    let all: Option<Vec<_>> = chunks.iter().map(corners).collect();
    all?.into_iter().reduce(Extent::union)
}

fn no_index_error() -> Error {
    Error::new(Class::InvalidArgument, "object index", "a level with objects", "none")
}

fn no_object_error(level: &LevelReader, id: ObjectId) -> Result<Error, Error> {
    let index = level.node().path().join("object_index")?;
    let error = Error::new(Class::NotFound, "object", "an object of the level", id.0).at_key(index);
    Ok(error)
}

/// Maximum number of listed references: a manifest of a few bytes can refer to any number of
/// fragments.
const MAX_REFERENCES: u64 = 1 << 24;

/// Maximum number of ids that are examined for advice.
const LOOKED_AT: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use archives::Unpacked;
    use zvf_model::LevelId;
    use zvf_store::Store;

    use super::*;
    use crate::inspect::GroupView;

    #[tokio::test]
    async fn a_stored_attribute_without_a_document_is_an_error() {
        let store = Unpacked::new("sl3_streamlines");
        // What a removed attribute leaves is none.
        std::fs::create_dir_all(store.path().join("0/object_attributes/removed/c")).unwrap();
        for missing in ["none", "0/group_attributes/score", "0/object_attributes/mean"] {
            let document = store.path().join(missing).join("zarr.json");
            let is_missing = std::fs::remove_file(document).is_ok();
            let opened = Store::open(store.path().to_str().unwrap(), Default::default()).await;
            let level = LevelReader::open(&opened.unwrap(), LevelId(0)).await.unwrap();
            let groups = GroupView::read(&level, None, 0).await.err();
            let error = ObjectView::read_rows(&level, &[0], 0).await.err().or(groups);
            assert_eq!(error.as_ref().map(Error::class), is_missing.then_some(Class::NotFound));
            assert!(error.is_none_or(|error| error.to_string().contains(missing)), "{missing}");
        }
    }
}
