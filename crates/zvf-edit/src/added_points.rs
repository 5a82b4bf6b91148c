//! Points without objects that a file or another store adds. They get numbers only where an
//! operation follows.
//!
//! ```text
//! add       chunk, position and values of each point, one after the other, in a scratch file
//! number    an operation follows: the points become vertices in this order
//! rebuild   none follows: they are sorted by chunk, and each chunk is rebuilt in turn
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::changes::{Changes, read_blob};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::journal::need_listed;
use crate::levels::list_coarser;
use crate::new_rows::NewRows;
use crate::numbers::{NONE, Vid, vertex_number};
use crate::rebuild::{RebuildResult, Tally};
use crate::row_pages::RowPages;

/// Sorts points by chunk. Returns the rows of each chunk in parts, in the order of their numbers.
fn sort_by_chunk(points: &RowPages) -> Result<Changes<(u32, usize)>> {
    let mut sorted = Changes::default();
    let (mut held, mut held_bytes) = (BTreeMap::<u32, Vec<u8>>::new(), 0);
    let mut row = Vec::new();
    for n in 0..points.count() {
        row.clear();
        points.copy_row(n, &mut row)?;
        let chunk = u32::from_le_bytes([row[0], row[1], row[2], row[3]]);
        held.entry(chunk).or_default().extend_from_slice(&row[CHUNK_BYTES..]);
        held_bytes += row.len();
        if held_bytes >= MAX_HELD_BYTES || n + 1 == points.count() {
            for (chunk, rows) in std::mem::take(&mut held) {
                sorted.insert((chunk, sorted.keys.len()), Some(rows.into()));
            }
            held_bytes = 0;
        }
    }
    Ok(sorted)
}

impl Geometry {
    /// Returns whether its vertices are points that no object and no link names.
    pub(crate) fn has_only_points(&self) -> bool {
        self.objects.is_none() && self.links.is_none()
    }

    /// Adds points without an object. They get no numbers yet, unless other vertices or columns are
    /// already edited.
    pub(crate) fn add_points(&mut self, rows: &NewRows) -> Result<()> {
        let is_edited = !self.home.is_empty()
            || self.columns.iter().any(|column| column.is_new)
            || self.fragment_columns.iter().any(|column| column.is_new);
        if !self.has_only_points() || is_edited {
            return self.add_rows(NONE, &rows.bytes).map(drop);
        }
        let (position, size) = (self.position_size(), CHUNK_BYTES + self.row_size());
        let mut points = self.points.take().unwrap_or_else(|| RowPages::new(size));
        for row in rows.iter() {
            let (chunk, _) = self.locate(&self.decode_position(&row[..position]))?;
            vertex_number(points.count() as usize)?;
            points.push(&self.chunk_number(&chunk).to_le_bytes());
            points.push(row);
        }
        self.points = Some(points);
        Ok(())
    }

    /// Makes the added points vertices.
    pub(crate) fn number_points(&mut self) -> Result<()> {
        let Some(points) = self.points.take() else { return Ok(()) };
        for n in 0..points.count() {
            self.add_rows(NONE, &points.row(n)?[CHUNK_BYTES..])?;
        }
        Ok(())
    }

    /// Rebuilds the chunks of added points, one after the other, so that only the vertices of one
    /// are in memory.
    pub(crate) fn rebuild_points(
        &mut self,
        result: &mut RebuildResult,
        tally: &mut Tally,
    ) -> Result<()> {
        let Some(points) = self.points.take() else { return Ok(()) };
        let sorted = sort_by_chunk(&points)?;
        drop(points);
        let has_levels = !list_coarser(&self.snap)?.is_empty();
        for chunk in sorted.keys.keys().map(|(chunk, _)| *chunk).collect::<BTreeSet<u32>>() {
            for (_, rows) in sorted.keys.range((chunk, 0)..=(chunk, usize::MAX)) {
                self.add_rows(NONE, &need_listed("added points", read_blob(rows)?)?)?;
            }
            self.load_chunk(chunk)?;
            let mut part = RebuildResult::default();
            self.rebuild_chunks(&BTreeSet::from([chunk]), &[], &mut part, tally)?;
            self.extend_box(&part, tally);
            let key = self.chunk_keys[chunk as usize].clone();
            if has_levels {
                let row_of = |v: &Vid| part.places.get(v).map_or(NONE, |(_, row)| *row);
                let rows = self.chunks[&chunk].rows.iter().map(row_of).collect();
                result.moves.insert(key.clone(), rows);
            }
            result.chunks.insert(key);
            self.forget_vertices();
        }
        Ok(())
    }

    /// Forgets all vertices. Their changes are staged.
    pub(crate) fn forget_vertices(&mut self) {
        self.positions.clear();
        self.home.clear();
        self.new_chunk.clear();
        self.alive.clear();
        self.existed.clear();
        self.owner.clear();
        self.parent.clear();
        self.free_changed.clear();
        self.chunks.clear();
        for column in &mut self.columns {
            column.data = RowPages::new(column.ty.size());
        }
    }
}

/// Bytes of the number of a chunk in front of a row.
const CHUNK_BYTES: usize = size_of::<u32>();
/// Bytes of sorted points that are held, about.
const MAX_HELD_BYTES: usize = 1 << 23;
