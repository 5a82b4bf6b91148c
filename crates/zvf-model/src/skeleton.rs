//! Skeletons: the parent of each vertex.
//!
//! ```text
//! implied                       the row before it in the same fragment; the first row of a fragment has none
//! record, undirected family     (child, parent); takes the place of the implied parent of that child
//! record, directed family       joins a fragment to its parent, in either order; implied parents stay
//! ```
//!
//! Directed families are those of skeletons that were streamed chunk by chunk. Their writers store
//! the two ends in either order, so the child is the end that is the first row of a fragment. If
//! both or neither are, the stored order decides: (child, parent) within a chunk, (parent, child)
//! across chunks.
//!
//! That holds for every version: there are no implicit edges between fragments, not even in 0.6 and
//! 0.7. A root is a row without a parent.
//!
//! Not here: rows outside of all fragments; they are not part of any skeleton.

use async_recursion::async_recursion as boxed;
use std::collections::{HashMap, HashSet};

use zvf_error::{Error, Result};
use zvf_format::key::{ChunkKey, Delta};
use zvf_store::Caching;

use crate::{ChunkFragments, LevelReader, LinkFamily, LinkRecords, LinkSegment, VertexRow};

/// An edge of a skeleton.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// // Read as a skeleton: row 1 of the first chunk follows row 0, but a record names its parent.
/// let chunks: Vec<_> = level.chunks().await?.iter().collect();
/// let edges = level.skeleton_edges(&chunks, &mut Vec::new()).await?;
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
    /// Its record, unless the edge is implicit.
    pub record: Option<StoredLink>,
}

/// The location of a record.
///
/// ```
/// let at = zvf_model::StoredLink { segment: 1, cell: 0, record: 12 };
/// assert_eq!(at.record, 12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredLink {
    /// The number of the segment in the family.
    pub segment: usize,
    /// The position of the cell in the segment.
    pub cell: usize,
    /// The position of the record among those read from the cell.
    pub record: usize,
}

impl LevelReader {
    /// Returns the edges from the rows of `chunks` to their parents, in the order of chunks and
    /// their fragments; a row in several fragments has its edges once per fragment. Records of a
    /// directed family only add edges: the error of one that cannot be read is added to `faults`.
    ///
    /// # Errors
    ///
    /// When fragments cannot be read, or records that replace edges.
    #[boxed]
    pub async fn skeleton_edges(
        &self,
        chunks: &[ChunkKey],
        faults: &mut Vec<Error>,
    ) -> Result<Vec<SkeletonEdge>> {
        let Explicit { parents, directed } = self.explicit_parents(chunks, faults).await?;
        let mut edges = Vec::new();
        for fragments in self.fragments(chunks).await {
            push_edges(&fragments?, &parents, directed, &mut edges)?;
        }
        Ok(edges)
    }

    /// Returns the parents in records, for children in `chunks`.
    async fn explicit_parents(
        &self,
        chunks: &[ChunkKey],
        faults: &mut Vec<Error>,
    ) -> Result<Explicit> {
        let mut explicit = Explicit::default();
        let Some(family) = self.links(Delta::SAME).await? else { return Ok(explicit) };
        explicit.directed = family.policy().is_directed();
        let requested: HashSet<&ChunkKey> = chunks.iter().collect();
        let is_requested = |chunk: &ChunkKey| requested.contains(chunk);
        let known = faults.len();
        let pairs = pairs_touching(&family, is_requested, faults).await?;
        if !explicit.directed && faults.len() > known {
            return Err(faults.swap_remove(known));
        }
        let first_rows =
            if explicit.directed { self.first_rows(&pairs).await? } else { HashSet::new() };
        for Pair { ends: [a, b], across, at } in pairs {
            let child_first = match (first_rows.contains(&a), first_rows.contains(&b)) {
                (true, false) => true,
                (false, true) => false,
                (true, true) | (false, false) => !(explicit.directed && across),
            };
            let (child, parent) = if child_first { (a, b) } else { (b, a) };
            if is_requested(&child.chunk) {
                explicit.parents.entry(child).or_default().push((parent, at));
            }
        }
        Ok(explicit)
    }

    /// Returns the first row of each fragment of the chunks in which `pairs` end.
    async fn first_rows(&self, pairs: &[Pair]) -> Result<HashSet<VertexRow>> {
        let mut chunks: Vec<ChunkKey> =
            pairs.iter().flat_map(|pair| pair.ends.map(|end| end.chunk)).collect();
        chunks.sort_unstable_by(ChunkKey::cmp_numeric);
        chunks.dedup();
        let mut first_rows = HashSet::new();
        for fragments in self.fragments(&chunks).await {
            let fragments = fragments?;
            let chunk = *fragments.chunk();
            let firsts = fragments.view().iter().filter_map(|fragment| fragment.rows().next());
            first_rows.extend(firsts.map(|row| VertexRow { chunk, row }));
        }
        Ok(first_rows)
    }
}

/// The parents according to the records of a level.
#[derive(Default)]
struct Explicit {
    parents: HashMap<VertexRow, Vec<(VertexRow, StoredLink)>>,
    directed: bool,
}

/// A record of two ends, as stored.
struct Pair {
    ends: [VertexRow; 2],
    across: bool,
    at: StoredLink,
}

/// Returns the records of pairs with an end in a requested chunk; errors of cells are added to
/// `faults`.
async fn pairs_touching(
    family: &LinkFamily,
    is_requested: impl Fn(&ChunkKey) -> bool,
    faults: &mut Vec<Error>,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for (number, segment) in family.segments().iter().enumerate() {
        let across = segment.offsets().is_some_and(|offsets| !offsets.are_zero());
        for (cell, records) in records_touching(segment, &is_requested).await? {
            let Some(records) = records.map_err(|error| faults.push(error)).ok() else { continue };
            for record in (0..records.len()).filter(|i| records.is_leading(*i)) {
                let mut ends =
                    records.endpoints(record).map(|(chunk, row)| VertexRow { chunk: *chunk, row });
                if let (Some(a), Some(b), None) = (ends.next(), ends.next(), ends.next()) {
                    let at = StoredLink { segment: number, cell, record };
                    pairs.push(Pair { ends: [a, b], across, at });
                }
            }
        }
    }
    Ok(pairs)
}

/// Returns the cells of `segment` that involve a requested chunk, each with its position.
async fn records_touching(
    segment: &LinkSegment,
    is_requested: impl Fn(&ChunkKey) -> bool,
) -> Result<Vec<(usize, Result<LinkRecords>)>> {
    let cells = segment.cells().await?;
    let mut places = Vec::new();
    for place in 0..cells.len() {
        if cells.chunks(place)?.iter().any(&is_requested) {
            places.push(place);
        }
    }
    let read = segment.read(&places, Caching::Keep).await;
    Ok(places.into_iter().zip(read).collect())
}

/// Adds the edges of the rows of one chunk. In a directed family, a record does not replace an
/// implicit edge.
fn push_edges(
    fragments: &ChunkFragments,
    explicit: &HashMap<VertexRow, Vec<(VertexRow, StoredLink)>>,
    directed: bool,
    edges: &mut Vec<SkeletonEdge>,
) -> Result<()> {
    let chunk = *fragments.chunk();
    for fragment in &fragments.view() {
        let mut before = None;
        for row in fragment.rows() {
            let child = VertexRow { chunk, row };
            let named = explicit.get(&child);
            edges.extend(named.into_iter().flatten().map(|(parent, at)| SkeletonEdge {
                child,
                parent: *parent,
                record: Some(*at),
            }));
            if let Some(row) = before.filter(|_| directed || named.is_none()) {
                let parent = VertexRow { chunk, row };
                edges.push(SkeletonEdge { child, parent, record: None });
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
    fn records_replace_implied_edges() {
        let chunk = ChunkKey::new(&[0]).unwrap();
        let mut builder = FragmentIndexBuilder::new();
        builder.push_range(0, 3).unwrap();
        builder.push_rows(&[5, 4]).unwrap();
        let fragments = ChunkFragments::new(builder.encode().into(), &Key::root(), chunk).unwrap();
        let row = |row| VertexRow { chunk, row };
        let at = StoredLink { segment: 0, cell: 0, record: 7 };
        let explicit = HashMap::from([(row(5), vec![(row(1), at)]), (row(2), vec![(row(0), at)])]);
        let mut edges = Vec::new();
        let mut edges_of = |directed| -> Vec<(u64, u64, bool)> {
            edges.clear();
            push_edges(&fragments, &explicit, directed, &mut edges).unwrap();
            edges.iter().map(|e| (e.child.row, e.parent.row, e.record.is_some())).collect()
        };
        assert_eq!(edges_of(false), [(1, 0, false), (2, 0, true), (5, 1, true), (4, 5, false)]);
        let directed = [(1, 0, false), (2, 0, true), (2, 1, false), (5, 1, true), (4, 5, false)];
        assert_eq!(edges_of(true), directed);
    }
}
