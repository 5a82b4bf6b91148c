//! Coarser levels in a commit: what an edit of level 0 updates at once, and how levels are marked as stale.
//!
//! ```text
//! index          of levels that keep ids: grows with level 0, and removed objects are emptied (`kept_columns`)
//! links          between the levels: ends that moved get new rows, links with a removed end are dropped
//! stale          zvf.stale of the level: since which head, in which boxes, which objects
//! columns        zvf.columns_changed of the level: level 0 has more or fewer columns of vertices or links
//! ```

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::{Value as Json, json};
use zvf_format::grid::ChunkShape;
use zvf_format::num;
use zvf_metadata::LevelDoc;
use zvf_pyramid::Stale;

use crate::arrays::{CellArray, Chunk, bounding_chunks};
use crate::changes::Changes;
use crate::error::{At, OrFail, Result};
use crate::geometry::Geometry;
use crate::groups::{GROUP_COLUMNS_PATH, GROUPS_PATH};
use crate::indexes::{Objects, columns_path, manifest_bytes, open_row_columns};
use crate::kept_columns::{SEGMENT_ID, VERTEX_COUNT};
use crate::links::{LinkFamily, moved_end};
use crate::numbers::End;
use crate::rebuild::{RebuildResult, Tally};
use crate::snapshot::{LEVEL_BLOCK, Snapshot, doc_key, parse_doc, read_block, read_doc};
use crate::transaction::Transaction;

/// Lists the numbers of the coarser levels.
pub(crate) fn list_coarser(snap: &Snapshot) -> Result<Vec<u32>> {
    let mut levels: Vec<u32> = Vec::new();
    for name in snap.list("")? {
        if let Ok(level) = name.parse::<u32>()
            && level > 0
            && read_doc(snap, &name)?.is_some()
        {
            levels.push(level);
        }
    }
    levels.sort_unstable();
    Ok(levels)
}

impl Transaction {
    /// Returns the path of the group of each kind at each level that has it, level 0 first.
    pub(crate) fn level_groups(&self) -> Result<Vec<String>> {
        let mut groups = Vec::new();
        for kind in &self.kinds {
            groups.push(kind.path.clone());
            for level in list_coarser(&self.snap)? {
                let path = kind.group_at_level(level);
                groups.extend(read_doc(&self.snap, &path)?.map(|_| path));
            }
        }
        Ok(groups)
    }

    /// Updates coarser levels for the changes of level 0. Returns the levels that are stale now.
    pub(crate) fn update_levels(
        &self,
        rebuilt: &[RebuildResult],
        tally: &Tally,
        changes: &mut Changes,
    ) -> Result<Vec<u32>> {
        let mut stale = Vec::new();
        let is_column = |item: &String| {
            ["column:vertex:", "column:link:"].iter().any(|of| item.starts_with(of))
        };
        let columns_changed = self.written_items.iter().any(is_column);
        // Levels also have copies of columns of objects, and of groups.
        let columns = self.kinds.iter().map(|kind| columns_path(&kind.path));
        let groups = [GROUPS_PATH, GROUP_COLUMNS_PATH].map(str::to_owned);
        let copied: Vec<String> = columns.chain(groups).collect();
        let is_copied = |key: &String| copied.iter().any(|path| key.starts_with(path));
        let moves =
            |kind: &RebuildResult| !kind.changed.is_empty() || !kind.linked_chunks.is_empty();
        let is_stale =
            columns_changed || rebuilt.iter().any(moves) || changes.keys.keys().any(is_copied);
        for level in list_coarser(&self.snap)? {
            for (geometry, kind) in self.kinds.iter().zip(rebuilt) {
                let path = geometry.group_at_level(level);
                if read_doc(&self.snap, &path)?.is_none() {
                    continue;
                }
                self.update_level_index(geometry, &path, changes)?;
                self.update_cross_level_links(geometry, kind, level, &path, changes)?;
            }
            if is_stale {
                let kinds = self.kinds.iter().map(|geometry| geometry.group_at_level(level));
                let paths: BTreeSet<String> = kinds.chain([level.to_string()]).collect();
                for path in paths {
                    self.mark_stale(&path, rebuilt, tally, changes)?;
                }
                stale.push(level);
            }
            if columns_changed && let Some(mut doc) = self.level_doc(&level.to_string(), changes)? {
                doc["attributes"]["zvf"][COLUMNS_CHANGED] = json!(true);
                changes.put_doc(&level.to_string(), &doc)?;
            }
        }
        Ok(stale)
    }

    /// Reads the document of a level, `changes` included. Returns `None` when there is no such level.
    pub(crate) fn level_doc(&self, path: &str, changes: &Changes) -> Result<Option<Json>> {
        match changes.get(&doc_key(path))? {
            Some(Some(bytes)) => Ok(Some(parse_doc(&bytes)?)),
            Some(None) => Ok(None),
            None => read_doc(&self.snap, path),
        }
    }

    /// Adds what changed to the mark of a level. A mark that cannot be read stays, and the level is rebuilt in full.
    fn mark_stale(
        &self,
        path: &str,
        rebuilt: &[RebuildResult],
        tally: &Tally,
        changes: &mut Changes,
    ) -> Result<()> {
        let Some(mut doc) = self.level_doc(path, changes)? else { return Ok(()) };
        let old = &doc["attributes"]["zvf"]["stale"];
        let read = match old.is_null() {
            true => Some((self.snap.head + 1, Stale::default())),
            false => old["since"].as_u64().zip(read_stale(old, self.kinds[0].axes)),
        };
        let Some((since, Stale { mut boxes, mut objects })) = read else { return Ok(()) };
        for (geometry, kind) in self.kinds.iter().zip(rebuilt) {
            let sizes = geometry.shape.sizes();
            for chunk in kind.changed.union(&kind.linked_chunks) {
                let corner = |shift: i64| -> Vec<f64> {
                    let sides = chunk.iter().zip(sizes);
                    sides.map(|(c, s)| num::f64_from_i64(*c + shift) * s).collect()
                };
                let corners = [corner(0), corner(1)];
                if !boxes.contains(&corners) {
                    boxes.push(corners);
                }
            }
        }
        if boxes.len() > MAX_BOXES {
            let corner = |side: usize, end: fn(f64, f64) -> f64| -> Vec<f64> {
                let ends = |axis| boxes.iter().map(|corners| corners[side][axis]).reduce(end);
                (0..boxes[0][side].len()).filter_map(ends).collect()
            };
            boxes = vec![[corner(0, f64::min), corner(1, f64::max)]];
        }
        objects.extend(tally.added.iter().chain(&tally.removed).chain(&tally.changed));
        objects.extend(rebuilt.iter().flat_map(|kind| &kind.linked_objects));
        objects.sort_unstable();
        objects.dedup();
        doc["attributes"]["zvf"]["stale"] =
            json!({"since": since, "boxes": boxes, "objects": objects});
        changes.put_doc(path, &doc)?;
        Ok(())
    }

    /// Gives the index of a level that keeps ids the same rows as level 0.
    fn update_level_index(
        &self,
        geometry: &Geometry,
        path: &str,
        changes: &mut Changes,
    ) -> Result<()> {
        let (objects, Some(mut level)) = (&geometry.objects, read_doc(&self.snap, path)?) else {
            return Ok(());
        };
        let keeps_ids = level["attributes"]["zarr_vectors_level"]["preserves_object_ids"] == true;
        if !geometry.has_objects || !keeps_ids {
            return Ok(());
        }
        let Some(mut kept) = Objects::open(&self.snap, path, objects.rank)? else {
            return Ok(());
        };
        let (count, before) = (objects.manifests.len(), kept.manifests.len());
        let empty = manifest_bytes(objects.rank, [])?;
        for row in num::index_u32(before)..num::index_u32(count) {
            kept.manifests.rows.now.extend([empty.clone()]);
            kept.set_id(row, objects.id_of_row(row))?;
        }
        let (mut removed, mut emptied) = (Vec::new(), BTreeSet::new());
        for (number, object) in &objects.known {
            if object.existed && !object.exists && kept.has_row(*number) {
                let row = num::usize_from_u32(*number);
                let blob = &mut kept.manifests.rows.change()[row];
                removed.push(std::mem::replace(blob, empty.clone()));
                emptied.insert(row);
            }
        }
        if count != before || !removed.is_empty() {
            let is_needed =
                |name: &str| count != before || [SEGMENT_ID, VERTEX_COUNT].contains(&name);
            kept.columns = open_row_columns(&self.snap, &columns_path(path), is_needed)?;
        }
        if !removed.is_empty() {
            kept.write_fragments(&self.snap, Some(&removed), changes)?;
        }
        for column in &mut kept.columns {
            column.array.resize(count);
            if column.is_kept() {
                // Emptied and new objects have no vertices.
                let empty = emptied.iter().copied().chain(before..count);
                empty.for_each(|row| column.array.set_row(row, &[0; 4]));
            }
        }
        kept.flush(changes)?;
        if count != before {
            level["attributes"]["zarr_vectors_level"]["inherited_num_objects"] = json!(count);
            // Empty rows before `built_rows` are objects that the level was built without.
            if level["attributes"]["zvf"]["built_rows"].is_null() {
                level["attributes"]["zvf"]["built_rows"] = json!(before);
            }
            changes.put_doc(path, &level)?;
        }
        Ok(())
    }

    /// Updates the links between level 0 and another level, in both directions.
    fn update_cross_level_links(
        &self,
        geometry: &Geometry,
        rebuilt: &RebuildResult,
        level: u32,
        path: &str,
        changes: &mut Changes,
    ) -> Result<()> {
        let Some((low, high)) = bounding_chunks(&rebuilt.chunks) else { return Ok(()) };
        let delta = i32::try_from(level)
            .ok()
            .or_refused(|| format!("level {level}: expected a number below 2^31"))?;
        let Some(doc) = read_doc(&self.snap, path)? else { return Ok(()) };
        let (root, coarse): (_, LevelDoc) = (&self.block, read_block(&doc, LEVEL_BLOCK).at(path)?);
        let root_shape = ChunkShape::new(&root.chunk_shape)?;
        let coarse_shape =
            ChunkShape::new(coarse.chunk_shape.as_ref().unwrap_or(&root.chunk_shape))?;
        let place =
            |v: u32| Ok(geometry.place_after(v).map(|(chunk, row)| (chunk, u64::from(row))));
        let mut end = |chunk: &Chunk, row: u64| -> Result<End> {
            if !rebuilt.moves.is_empty() {
                return moved_end(path, &rebuilt.moves, chunk, row);
            }
            if !rebuilt.chunks.contains(chunk) {
                // A cell names several chunks if links have more than two ends. The rows of this one stay.
                return Ok(End::row(chunk, row));
            }
            let state = geometry.chunk_keys.find(chunk).and_then(|n| geometry.chunks.get(&n));
            let found = state.and_then(|state| state.rows.clone().nth(num::checked_usize(row)?));
            found.map(End::Vertex).or_fail(zvf_format::Class::OutOfBounds, || {
                format!("{path}/links: a record names row {row} of chunk {chunk:?} of level 0")
            })
        };
        let coarse_vertices = CellArray::open(&self.snap, &format!("{path}/vertices"))?;
        let fine = (geometry.path.as_str(), &geometry.shape, Some(&geometry.vertices));
        let coarse = (path, &coarse_shape, coarse_vertices.as_ref());
        for (delta, (path, shape, like), linked) in [(delta, fine, coarse), (-delta, coarse, fine)]
        {
            let family = LinkFamily::open(&self.snap, path, delta, geometry.axes)?;
            let Some((family, like)) = family.zip(like) else { continue };
            let mut family = family.move_across(delta, shape, linked.1, &root_shape)?;
            if delta > 0 {
                family.extend_grids(&low, &high)?;
            }
            let is_fine = |place: usize| (place == 0) == (delta > 0);
            family.load_cells_naming(&rebuilt.chunks, &is_fine, &mut end)?;
            family.flush(like, &place, changes)?;
        }
        Ok(())
    }
}

impl Geometry {
    /// Returns the path of the group of this kind at a level.
    pub(crate) fn group_at_level(&self, level: u32) -> String {
        match self.path.split_once('/') {
            Some((_, kind)) => format!("{level}/{kind}"),
            None => level.to_string(),
        }
    }
}

/// Parses the boxes and objects of a stale mark. Returns `None` for what is none.
pub(crate) fn read_stale(mark: &Json, axes: usize) -> Option<Stale> {
    let stale = Stale::deserialize(mark).ok()?;
    let has_axes = stale.boxes.iter().flatten().all(|corner| corner.len() == axes);
    has_axes.then_some(stale)
}

/// The field that marks levels built before columns were added or dropped.
pub(crate) const COLUMNS_CHANGED: &str = "columns_changed";
/// Maximum number of boxes of a stale mark; more are merged into one.
const MAX_BOXES: usize = 64;
