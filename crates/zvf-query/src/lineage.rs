//! From vertices of a level to the vertices of coarser levels that represent them, or of finer
//! levels that they represent.
//!
//! Links to other levels are followed in whichever direction they are stored. If no links lead
//! directly to the target, they are followed level by level. Only the links of a few chunks are
//! read.
//!
//! Not here: creating such links (`zvf-pyramid`).

use async_recursion::async_recursion as boxed;
use std::collections::{HashMap, HashSet};

use zvf_error::{Error, Result};
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::to_u64;
use zvf_model::{Kind, LevelId, LevelLink, LevelReader, ObjectId, VertexRow};

use crate::Reader;
use crate::error::BadQuery;
use crate::select::pieces::missing_row_error;

impl Reader {
    /// Returns for each of `rows` of level `from` the rows of level `to` that represent it, or that
    /// it represents if that level is finer, by chunk and row. `None` if the store has no such
    /// links.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-model/testdata/bridge.zarrvectors");
    /// # let store = zvf_store::Store::open(path, Default::default()).await?;
    /// use zvf_model::{LevelId, ObjectId};
    ///
    /// let reader = zvf_query::Reader::new(store);
    /// // This store has one level only.
    /// assert_eq!(reader.find_related_of_kind(None, LevelId(0), LevelId(1), &[]).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When both are the same level, there is no level `from`, it has no such row, or links cannot be read.
    #[boxed]
    pub async fn find_related_of_kind(
        &self,
        kind: Option<Kind>,
        from: LevelId,
        to: LevelId,
        rows: &[VertexRow],
    ) -> Result<Option<Vec<LevelLink>>> {
        let far = i64::from(to.0) - i64::from(from.0);
        let Ok(far) = i32::try_from(far) else {
            return Err(Error::limit("levels apart", MAX_LEVEL_DISTANCE, far.unsigned_abs()));
        };
        self.check_rows(kind, from, rows).await?;
        let mut links = match self.follow_links(kind, from, far, rows).await? {
            Some(links) => links,
            None if far.unsigned_abs() > 1 => {
                let Some(links) = self.follow_levels(kind, from, to, rows).await? else {
                    return Ok(None);
                };
                links
            }
            None => return Ok(None),
        };
        links.sort_unstable_by(|a, b| {
            order(&a.row, &b.row).then(order(&a.linked_row, &b.linked_row))
        });
        links.dedup();
        Ok(Some(links))
    }

    /// Returns the locations of the vertices of an object, in the order of the object, among those
    /// of its kind.
    ///
    /// # Errors
    ///
    /// When the level has no objects or no such id, its fragments cannot be read or refer to
    /// missing rows, or the object has more than 10^8 rows.
    #[boxed]
    pub async fn object_rows(&self, level: LevelId, id: ObjectId) -> Result<Vec<VertexRow>> {
        let kind = self.find_kind(level, id).await?;
        let level = self.open_level(level, kind).await?;
        let index = level.objects().await?.ok_or(BadQuery::NoObjects)?;
        let found = index.find(&[id]).await?.first().copied().flatten();
        let Some(row) = found else { return Err(BadQuery::NoSuchObject(id).into()) };
        let followed = level.follow(&index, &[row]).await?;
        let keys: Vec<ChunkKey> = followed.chunks.iter().map(|chunk| *chunk.chunk()).collect();
        for (fragments, present) in followed.chunks.iter().zip(level.row_counts(&keys).await) {
            fragments.check_rows(present?)?;
        }
        let mut rows = Vec::new();
        for run in followed.objects.iter().flat_map(|object| &object.runs) {
            let fragments = &followed.chunks[run.chunk];
            let (chunk, view) = (*fragments.chunk(), fragments.view());
            // The fragments of followed objects exist.
            let fragment = view.get(run.fragment).ok_or_else(missing_row_error)?;
            let fragment_rows = fragment.rows_within(view.extent())?;
            let found = to_u64(rows.len()).saturating_add(fragment.len()); // compared with the cap
            if found > MAX_OBJECT_ROWS {
                return Err(Error::limit("rows of an object", MAX_OBJECT_ROWS, found));
            }
            rows.extend(fragment_rows.map(|row| VertexRow { chunk, row }));
        }
        Ok(rows)
    }

    /// Refuses rows that do not exist in level `from`.
    async fn check_rows(
        &self,
        kind: Option<Kind>,
        from: LevelId,
        rows: &[VertexRow],
    ) -> Result<()> {
        let level = self.open_level(from, kind).await?;
        let mut sorted: Vec<&VertexRow> = rows.iter().collect();
        sorted.sort_unstable_by(|a, b| order(a, b));
        let last: Vec<&VertexRow> = sorted
            .chunk_by(|a, b| a.chunk == b.chunk)
            .filter_map(|same| same.last().copied())
            .collect();
        let chunks = level.chunks().await?;
        let no_row =
            |row: &VertexRow| BadQuery::NoSuchRow { chunk: Box::new(row.chunk), row: row.row };
        if let Some(row) = last.iter().find(|row| chunks.find(&row.chunk).is_none()) {
            return Err(no_row(row).into());
        }
        let keys: Vec<ChunkKey> = last.iter().map(|row| row.chunk).collect();
        for (row, present) in last.iter().zip(level.row_counts(&keys).await) {
            if row.row >= present? {
                return Err(no_row(row).into());
            }
        }
        Ok(())
    }

    async fn open_level(&self, level: LevelId, kind: Option<Kind>) -> Result<LevelReader> {
        match kind {
            Some(kind) => self.level_of_kind(level, kind).await,
            None => self.level(level).await,
        }
    }

    /// Returns the links that lead directly to the target.
    async fn follow_links(
        &self,
        kind: Option<Kind>,
        from: LevelId,
        far: i32,
        rows: &[VertexRow],
    ) -> Result<Option<Vec<LevelLink>>> {
        let level = self.open_level(from, kind).await?;
        let Some(family) = level.level_links(Delta(far)).await? else { return Ok(None) };
        let requested_rows: HashSet<&VertexRow> = rows.iter().collect();
        let mut chunks: Vec<ChunkKey> = rows.iter().map(|row| row.chunk).collect();
        chunks.sort_unstable_by(ChunkKey::cmp_numeric);
        chunks.dedup();
        let mut links = family.read_chunks(&chunks).await?;
        links.retain(|link| requested_rows.contains(&link.row));
        Ok(Some(links))
    }

    /// Returns the links from level to level, composed.
    async fn follow_levels(
        &self,
        kind: Option<Kind>,
        from: LevelId,
        to: LevelId,
        rows: &[VertexRow],
    ) -> Result<Option<Vec<LevelLink>>> {
        let up = to > from;
        let (mut at, mut all) = (from, Vec::new());
        all.extend(rows.iter().map(|row| LevelLink { row: *row, linked_row: *row }));
        while at != to {
            let mut rows: Vec<VertexRow> = all.iter().map(|link| link.linked_row).collect();
            rows.sort_unstable_by(order);
            rows.dedup();
            let Some(links) = self.follow_links(kind, at, if up { 1 } else { -1 }, &rows).await?
            else {
                return Ok(None);
            };
            let mut next: HashMap<VertexRow, Vec<VertexRow>> = HashMap::new();
            for LevelLink { row, linked_row } in links {
                next.entry(row).or_default().push(linked_row);
            }
            let far = |LevelLink { row, linked_row }: LevelLink| {
                let linked_rows = next.get(&linked_row).into_iter().flatten();
                linked_rows.map(move |linked_row| LevelLink { row, linked_row: *linked_row })
            };
            all = all.into_iter().flat_map(far).collect();
            at = LevelId(if up { at.0 + 1 } else { at.0 - 1 }); // it lies between the two
        }
        Ok(Some(all))
    }
}

/// Maximum number of listed rows of one object.
const MAX_OBJECT_ROWS: u64 = 100_000_000;
/// Maximum distance of levels, by its type.
const MAX_LEVEL_DISTANCE: u64 = 1 << 31;

fn order(a: &VertexRow, b: &VertexRow) -> std::cmp::Ordering {
    a.chunk.cmp_numeric(&b.chunk).then(a.row.cmp(&b.row))
}
