//! Relations between levels: parents, children, and additive levels.
//!
//! ```text
//! links/+N at level L       records (row at L, row at L + N)        wherever the writer stored them:
//! links/-N at level L + N   records (row at L + N, row at L)        one of the two may be missing
//! refinement "add"          a level that holds only what the next coarser one does not
//! ```

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::{ChunkKey, Delta};
use zvf_store::{Caching, Store};

use crate::{LevelId, LevelReader, LinkFamily, LinkRecords};

/// The links between a level and another one; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// // This store has one level only, so nothing links it to a coarser one.
/// assert!(level.level_links(zvf_format::key::Delta(1)).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LevelLinks {
    family: LinkFamily,
    reversed: bool, // the family is the other level's
}

/// A row of vertices of a level.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_model::VertexRow;
///
/// let row = VertexRow { chunk: ChunkKey::new(&[0, -1])?, row: 3 };
/// assert_eq!(format!("{}/{}", row.chunk, row.row), "0.-1/3");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VertexRow {
    /// The chunk.
    pub chunk: ChunkKey,
    /// The row in it, as stored.
    pub row: u64,
}

/// A row of a level, and the row of another level that represents it or that it represents.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_model::{LevelLink, VertexRow};
///
/// let chunk = ChunkKey::new(&[4, 2])?;
/// let link = LevelLink { row: VertexRow { chunk, row: 9 }, linked_row: VertexRow { chunk, row: 0 } };
/// assert_ne!(link.row, link.linked_row);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelLink {
    /// The row at this level.
    pub row: VertexRow,
    /// The row at the other level.
    pub linked_row: VertexRow,
}

impl LevelReader {
    /// Returns the links to the level `delta` levels coarser (parents), or finer if it is negative
    /// (children), in whichever direction they are stored; `None` if there are none, or there is no
    /// such level.
    ///
    /// # Errors
    ///
    /// [`Class::InvalidArgument`] when `delta` is 0; otherwise when a level or its links cannot be opened.
    #[boxed]
    pub async fn level_links(&self, delta: Delta) -> Result<Option<LevelLinks>> {
        if delta == Delta::SAME {
            return Err(Error::new(Class::InvalidArgument, "delta", "another level", "this level"));
        }
        let other = i64::from(self.level().0) + i64::from(delta.0);
        let numbers = self.store().level_numbers();
        let Some(other) = u32::try_from(other).ok().filter(|other| numbers.contains(other)) else {
            return Ok(None);
        };
        let other = Self::open(self.store(), LevelId(other)).await?;
        if let Some(family) = self.links(delta).await? {
            return Ok(Some(LevelLinks { family, reversed: false }));
        }
        let Some(back) = delta.0.checked_neg().map(Delta) else { return Ok(None) };
        let family = other.links(back).await?;
        Ok(family.map(|family| LevelLinks { family, reversed: true }))
    }

    /// Returns the levels that together form level `level`: itself, and the coarser ones that it
    /// builds on, as long as each is additive.
    ///
    /// # Errors
    ///
    /// [`Class::BadShape`] when even the coarsest level is additive; otherwise when a level cannot
    /// be opened.
    #[boxed]
    pub async fn chain(store: &Store, level: LevelId) -> Result<Vec<Self>> {
        let mut chain = vec![Self::open(store, level).await?];
        let coarser = store.level_numbers().into_iter().filter(|number| *number > level.0);
        let mut adds = chain.iter().any(|level| level.node().meta().is_additive());
        for number in coarser {
            if !adds {
                break;
            }
            let next = Self::open(store, LevelId(number)).await?;
            adds = next.node().meta().is_additive();
            chain.push(next);
        }
        if adds {
            let error = Error::new(
                Class::BadShape,
                "refinement",
                "a coarser level that it adds to",
                "none",
            );
            return Err(error.at_array(chain[chain.len() - 1].node().path()));
        }
        Ok(chain)
    }
}

impl LevelLinks {
    /// Returns the family that contains the links: of this level, or of the other one if only that
    /// exists.
    pub fn family(&self) -> &LinkFamily {
        &self.family
    }

    /// Returns the links of the rows of `chunks` of this level, in the order of the family; a
    /// record of more than two endpoints gives one link for each endpoint after the first.
    ///
    /// # Errors
    ///
    /// When links cannot be enumerated or read.
    #[boxed]
    pub async fn read_chunks(&self, chunks: &[ChunkKey]) -> Result<Vec<LevelLink>> {
        let requested: HashSet<&ChunkKey> = chunks.iter().collect();
        let is_requested = |chunk: &ChunkKey| requested.contains(chunk);
        let mut links = Vec::new();
        for segment in self.family.segments() {
            let cells = segment.cells().await?;
            let mut places = Vec::new();
            for place in cells.cell_order() {
                let chunks = cells.chunks(place)?;
                let near = if self.reversed { chunks.get(1..) } else { chunks.get(..1) };
                if near.into_iter().flatten().any(is_requested) {
                    places.push(place);
                }
            }
            for records in segment.read(&places, Caching::Keep).await {
                self.push(&records?, &mut links);
            }
        }
        links.retain(|link| is_requested(&link.row.chunk));
        Ok(links)
    }

    fn push(&self, records: &LinkRecords, links: &mut Vec<LevelLink>) {
        for i in 0..records.len() {
            let mut ends =
                records.endpoints(i).map(|(chunk, row)| VertexRow { chunk: *chunk, row });
            let Some(first) = ends.next() else { continue };
            links.extend(ends.map(|end| match self.reversed {
                false => LevelLink { row: first, linked_row: end },
                true => LevelLink { row: end, linked_row: first },
            }));
        }
    }
}
