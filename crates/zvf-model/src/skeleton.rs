//! Skeletons: which vertex is whose parent.
//!
//! ```text
//! implied     the row before it in the same fragment; the first row of a fragment has none
//! explicit    a record that names the row as the child takes the place of the implied parent
//! record      (child, parent), but (parent, child) in a directed family under offsets that are not zero,
//!             which is how skeletons that were streamed chunk by chunk have it
//! ```
//!
//! That holds for every version: nothing is implied from one fragment to the next, in 0.6 and 0.7 neither.
//! A root is a row without a parent.
//!
//! Not here: rows that no fragment names; they are not part of any skeleton.

use std::collections::HashMap;

use zvf_format::key::{ChunkKey, Delta};
use zvf_store::Caching;

use crate::{ChunkFragments, LevelReader, LinkFamily, LinkRecords, LinkSegment, ModelError};

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

/// An edge of a skeleton.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::Level(0)).await?;
/// // Read as a skeleton: row 1 of the first chunk follows row 0, but a record names its parent.
/// let chunks: Vec<_> = level.chunks().await?.iter().collect();
/// let edges = level.skeleton_edges(&chunks).await?;
/// let explicit = edges.iter().filter(|edge| edge.record.is_some());
/// assert_eq!((edges.len(), explicit.count()), (3, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkeletonEdge {
    /// The vertex.
    pub child: VertexRow,
    /// Its parent.
    pub parent: VertexRow,
    /// The record it stands in, unless it is implied.
    pub record: Option<StoredLink>,
}

/// Where a record stands.
///
/// ```
/// let at = zvf_model::StoredLink { segment: 1, cell: 0, record: 12 };
/// assert_eq!(at.record, 12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredLink {
    /// The segment, by its number in the family.
    pub segment: usize,
    /// The cell, by its place in the segment.
    pub cell: usize,
    /// The record, by its place among those that were read from the cell.
    pub record: usize,
}

impl LevelReader {
    /// The edges from the rows of `chunks` to their parents, in the order of chunks and their fragments; a
    /// row that several fragments name has its edges once for each.
    ///
    /// # Errors
    ///
    /// When fragments or links cannot be read, or a family is not of pairs.
    pub async fn skeleton_edges(
        &self,
        chunks: &[ChunkKey],
    ) -> Result<Vec<SkeletonEdge>, ModelError> {
        let explicit = self.explicit_parents(chunks).await?;
        let mut edges = Vec::new();
        for fragments in self.fragments(chunks).await {
            push_edges(&fragments?, &explicit, &mut edges)?;
        }
        Ok(edges)
    }

    /// The parents that records name, for children in `chunks`.
    async fn explicit_parents(
        &self,
        chunks: &[ChunkKey],
    ) -> Result<HashMap<VertexRow, Vec<(VertexRow, StoredLink)>>, ModelError> {
        let mut explicit = HashMap::new();
        let Some(family) = self.links(Delta::SAME).await? else { return Ok(explicit) };
        let mut wanted: Vec<&ChunkKey> = chunks.iter().collect();
        wanted.sort_unstable_by(|a, b| a.cmp_numeric(b));
        let is_wanted =
            |chunk: &ChunkKey| wanted.binary_search_by(|one| one.cmp_numeric(chunk)).is_ok();
        for (number, segment) in family.segments().iter().enumerate() {
            let cells = segment.cells().await?;
            let mut places = Vec::new();
            for place in 0..cells.len() {
                if cells.chunks(place)?.iter().any(is_wanted) {
                    places.push(place);
                }
            }
            for (records, cell) in
                segment.read(&places, Caching::Keep).await.into_iter().zip(places)
            {
                let records = records?;
                for record in (0..records.len()).filter(|i| records.is_leading(*i)) {
                    let Some([child, parent]) = oriented(&family, segment, &records, record) else {
                        continue;
                    };
                    if is_wanted(&child.chunk) {
                        let at = StoredLink { segment: number, cell, record };
                        let parents: &mut Vec<_> = explicit.entry(child).or_default();
                        parents.push((parent, at));
                    }
                }
            }
        }
        Ok(explicit)
    }
}

impl LinkFamily {
    /// The child and the parent of record `i` of `records`, which are of segment `segment`, when the family
    /// is a skeleton's; `None` past the end, and for records that are no pairs.
    #[must_use]
    pub fn child_and_parent(
        &self,
        segment: &LinkSegment,
        records: &LinkRecords,
        i: usize,
    ) -> Option<[VertexRow; 2]> {
        oriented(self, segment, records, i)
    }
}

fn oriented(
    family: &LinkFamily,
    segment: &LinkSegment,
    records: &LinkRecords,
    i: usize,
) -> Option<[VertexRow; 2]> {
    let mut ends = records.endpoints(i).map(|(chunk, row)| VertexRow { chunk: *chunk, row });
    let (a, b) = (ends.next()?, ends.next()?);
    let across = segment.offsets().is_some_and(|offsets| !offsets.are_zero());
    if ends.next().is_some() {
        None
    } else if family.policy().is_directed() && across {
        Some([b, a])
    } else {
        Some([a, b])
    }
}

/// Adds the edges of the rows of one chunk.
fn push_edges(
    fragments: &ChunkFragments,
    explicit: &HashMap<VertexRow, Vec<(VertexRow, StoredLink)>>,
    edges: &mut Vec<SkeletonEdge>,
) -> Result<(), ModelError> {
    let chunk = *fragments.chunk();
    for fragment in &fragments.view()? {
        let mut before = None;
        for row in fragment.rows() {
            let child = VertexRow { chunk, row };
            match (explicit.get(&child), before) {
                (Some(parents), _) => edges.extend(parents.iter().map(|(parent, at)| {
                    SkeletonEdge { child, parent: *parent, record: Some(*at) }
                })),
                (None, Some(row)) => {
                    let parent = VertexRow { chunk, row };
                    edges.push(SkeletonEdge { child, parent, record: None });
                }
                (None, None) => {}
            }
            before = Some(row);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;
    use zvf_store::Key;

    use super::*;

    #[test]
    fn records_take_the_place_of_what_is_implied() {
        let chunk = ChunkKey::new(&[0]).unwrap();
        let mut builder = FragmentIndexBuilder::new();
        builder.range(0, 3).unwrap();
        builder.rows(&[5, 4]).unwrap();
        let fragments = ChunkFragments::new(builder.encode().into(), &Key::root(), chunk).unwrap();
        let row = |row| VertexRow { chunk, row };
        let at = StoredLink { segment: 0, cell: 0, record: 7 };
        let explicit = HashMap::from([(row(5), vec![(row(1), at)]), (row(2), vec![(row(0), at)])]);
        let mut edges = Vec::new();
        push_edges(&fragments, &explicit, &mut edges).unwrap();
        let shown: Vec<_> =
            edges.iter().map(|e| (e.child.row, e.parent.row, e.record.is_some())).collect();
        assert_eq!(shown, [(1, 0, false), (2, 0, true), (5, 1, true), (4, 5, false)]);
    }
}
