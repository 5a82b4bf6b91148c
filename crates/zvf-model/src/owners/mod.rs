//! From fragments to the objects that own them.
//!
//! ```text
//! owner column   fragment_attributes/object_id: the id, -1 for none, -2 for several      (if stamped)
//! manifests      every reference of every object, turned round                           (otherwise)
//! ```
//!
//! The inverted index is built once per handle and level, in one pass over the manifests, as arrays
//! sorted by chunk and fragment: eight bytes per reference. If that would exceed half of the
//! budget, a pass keeps a window: the chunks of the query, and those after them for the next
//! queries. If the column determines the owners, only the crossings (below) are gathered, also in
//! one pass.
//!
//! The same pass finds *crossings*: for kinds that are chains, places where an object steps from
//! one chunk to another that shares no face with it. In between, it may pass through chunks in
//! which it has no vertex, and nothing in those chunks shows that. A step between neighbours stays
//! inside the two.
//!
//! A reference to a chunk without vertices is ignored here: it becomes an error when its object is
//! followed.

mod column;
mod pass;
mod table;

use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;

pub(crate) use table::{CachedCrossings, CachedOwners};
pub use table::{ChunkOwners, Owner};

use crate::{LevelReader, ObjectIndex};
use pass::Pass;
use table::Window;

/// Returns whether a step from the first chunk to the second matters.
pub type Near<'a> = &'a (dyn Fn(&[i64], &[i64]) -> bool + Send + Sync);

/// The owners of fragments of some chunks, and objects that may cross the region.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let chunks: Vec<_> = level.chunks().await?.iter().collect();
/// let owners = level.owners(&chunks, None).await?.expect("the level has objects");
/// assert_eq!(owners.chunks[0].fragment_owners(0).collect::<Vec<_>>(), [0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// One entry per requested chunk.
    pub chunks: Vec<ChunkOwners>,
    /// Rows of objects with a relevant crossing, ascending, without duplicates.
    pub crossing: Vec<u64>,
}

impl LevelReader {
    /// Returns the owners of the fragments of `chunks`, and the objects with a crossing that is
    /// `near`; `None` if the level has no object index.
    ///
    /// # Errors
    ///
    /// When the manifests cannot be read, or the chunks cannot be enumerated.
    pub async fn owners(
        &self,
        chunks: &[ChunkKey],
        near: Option<Near<'_>>,
    ) -> Result<Option<Owners>> {
        let Some(index) = self.objects().await? else { return Ok(None) };
        let near = near.filter(|_| self.is_chain());
        let mut cached = self.cached_owners().lock().await;
        if near.is_none()
            && cached.window.is_none()
            && let Some(chunks) = column::owners(self, &index, chunks).await?
        {
            return Ok(Some(Owners { chunks, crossing: Vec::new() }));
        }
        let all = self.chunks().await?;
        let places = chunks.iter().filter_map(|key| u32::try_from(all.find(key)?).ok());
        let places: Vec<u32> = places.collect();
        let is_held = |window: &Window| places.iter().all(|place| window.places.contains(place));
        if cached.is_too_large
            && !cached.window.as_ref().is_some_and(is_held)
            && let Some(chunks) = column::owners(self, &index, chunks).await?
        {
            let crossing = match near {
                Some(near) => self.crossing_objects(&index, near).await?,
                None => Vec::new(),
            };
            return Ok(Some(Owners { chunks, crossing }));
        }
        if !cached.window.as_ref().is_some_and(is_held) {
            let first = places.iter().min().copied().unwrap_or(0);
            let end = places.iter().max().map_or(0, |last| last + 1);
            let pass = Pass::read_window(self, first..end.max(first)).await?;
            let window = pass.run(&index).await?;
            cached.is_too_large =
                window.as_ref().is_none_or(|window| window.places.len() < all.len());
            cached.window = window;
        }
        let table = match &cached.window {
            Some(window) => Arc::clone(&window.table),
            // More than fits in the budget at once: only the requested ones.
            None => Pass::read_some(self, chunks, near).await?.run_or_refuse(&index).await?,
        };
        drop(cached);
        let chunk_owners = |key| ChunkOwners::new(&table, all.find(key));
        let crossing = near.map(|near| table.crossing_objects(&all, near));
        Ok(Some(Owners {
            chunks: chunks.iter().map(chunk_owners).collect(),
            crossing: crossing.unwrap_or_default(),
        }))
    }

    /// Returns the rows of the objects with a crossing that is `near`, if there are too many owners
    /// of fragments for a table.
    async fn crossing_objects(&self, index: &ObjectIndex, near: Near<'_>) -> Result<Vec<u64>> {
        let cached = self.cached_crossings().get_or_try_init(|| async {
            let pass = Pass::read_crossings(self, self.index_cap()).await?;
            Ok::<_, Error>(pass.run(index).await?.map(|window| window.table))
        });
        let table = match cached.await? {
            Some(table) => Arc::clone(table),
            None => {
                let pass = Pass::read_some(self, &[], Some(near)).await?;
                pass.run_or_refuse(index).await?
            }
        };
        let all = self.chunks().await?;
        Ok(table.crossing_objects(&all, near))
    }

    /// Returns whether some kind of the store consists of chains.
    pub(crate) fn is_chain(&self) -> bool {
        self.kinds().iter().any(|kind| kind.is_chain())
    }
}
