//! Writes the values of chunks whose rows stay and of new columns, counts the changed vertices, and
//! writes the document of a level.

use std::collections::BTreeSet;

use serde_json::json;

use crate::arrays::{Chunk, chunk_text};
use crate::changes::Changes;
use crate::error::Result;
use crate::geometry::Geometry;
use crate::numbers::{NONE, Vertex, Vid};
use crate::rebuild::{RebuildResult, Tally};
use crate::snapshot::read_doc;

impl Geometry {
    /// Writes the values of chunks whose rows stay and of new columns, and counts the changed vertices.
    pub(crate) fn write_values(
        &mut self,
        rebuilt: &BTreeSet<u32>,
        result: &mut RebuildResult,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        out.keys.append(&mut self.erased.keys);
        let mut chunks: BTreeSet<u32> = self.changed_chunks.iter().copied().collect();
        if self.columns.iter().any(|column| column.is_new) {
            chunks.extend(self.all_chunks());
        }
        for chunk in chunks.union(rebuilt).copied().collect::<Vec<_>>() {
            self.load_chunk(chunk)?;
            let key = self.chunk_keys[chunk].clone();
            let rows = self.chunks[&chunk].rows.clone().collect::<Vec<Vid>>();
            let old_positions = self.vertices.read_stored(&key)?.unwrap_or_default();
            let differing = self.count_vertices(&key, &rows, &old_positions, tally)?;
            self.count_owners(&key, &differing, tally)?;
            if !differing.is_empty() {
                result.changed.insert(key.clone());
            }
            for v in differing {
                tally.extend_box(&self.decimal_position(v));
            }
            if !rebuilt.contains(&chunk) && !rows.is_empty() {
                self.put_values(&key, &rows, &old_positions)?;
            }
        }
        self.extend_box(tally);
        self.write_fragment_columns(rebuilt)?;
        self.flush_vertices(out)
    }

    /// Extends the box of changed positions by the new vertices.
    pub(crate) fn extend_box(&self, tally: &mut Tally) {
        for (v, vertex) in (0..).zip(&self.vertex.list) {
            if vertex.home.0 == NONE && vertex.place.0 != NONE {
                tally.extend_box(&self.decimal_position(v));
            }
        }
    }

    /// Counts the moved, changed and removed vertices of a chunk. Returns those that moved or changed.
    fn count_vertices(
        &self,
        key: &Chunk,
        rows: &[Vid],
        old_positions: &[u8],
        tally: &mut Tally,
    ) -> Result<Vec<Vid>> {
        let size = self.position_size();
        let mut differs = vec![false; rows.len()];
        for (row, v) in rows.iter().enumerate() {
            let Vertex { existed, alive, owner, .. } = self.vertex[*v];
            if existed && !alive {
                tally.vertices[1] += 1;
                if owner == NONE {
                    tally.free_chunks.insert(self.chunk_item(key));
                }
            } else if alive
                && old_positions.get(row * size..(row + 1) * size) != Some(self.position_bytes(*v))
            {
                tally.vertices[2] += 1;
                differs[row] = true;
            }
        }
        for column in self.columns.iter().filter(|column| column.is_loaded && !column.is_new) {
            let width = column.ty.size();
            let old = column.array.read_stored(key)?.unwrap_or_default();
            if column.array.path.is_empty() || old.is_empty() {
                continue;
            }
            for (row, v) in rows.iter().enumerate() {
                // A column may have fewer rows.
                let old = old.get(row * width..(row + 1) * width).unwrap_or_default();
                if self.vertex[*v].alive && !column.data.is_row(*v, old)? {
                    tally.vertices[3] += u64::from(!differs[row]);
                    differs[row] = true;
                }
            }
        }
        Ok(rows.iter().zip(differs).filter_map(|(v, differs)| differs.then_some(*v)).collect())
    }

    /// Counts the objects of differing vertices as changed, or the chunk of a vertex without an object.
    fn count_owners(&mut self, key: &Chunk, differing: &[Vid], tally: &mut Tally) -> Result<()> {
        for v in differing {
            let owner = self.owner_of(*v)?;
            match self.object_id(owner) {
                Some(id) if !tally.added.contains(&id) && !tally.removed.contains(&id) => {
                    tally.changed.insert(id);
                }
                Some(_) => {}
                None => {
                    tally.free_chunks.insert(self.chunk_item(key));
                }
            }
        }
        Ok(())
    }

    /// Returns the item by which transactions on vertices without objects conflict.
    pub(crate) fn chunk_item(&self, key: &[i64]) -> String {
        format!("chunk:{}:{}", self.kind, chunk_text(key))
    }

    /// Stages the positions and values of a chunk whose rows stay, where they differ from the stored ones.
    fn put_values(&mut self, key: &Chunk, rows: &[Vid], old_positions: &[u8]) -> Result<()> {
        let positions: Vec<u8> =
            rows.iter().flat_map(|v| self.position_bytes(*v).to_vec()).collect();
        if old_positions != positions {
            self.vertices.put_chunk(key, positions);
        }
        for column in self.columns.iter_mut().filter(|column| column.is_loaded) {
            let mut bytes = Vec::with_capacity(rows.len() * column.ty.size());
            rows.iter().try_for_each(|v| column.data.copy_row(*v, &mut bytes))?;
            if column.array.read(key)?.as_deref() != Some(&bytes[..]) {
                column.array.put_chunk(key, bytes);
            }
        }
        Ok(())
    }

    /// Flushes positions, fragments and columns.
    fn flush_vertices(&mut self, out: &mut Changes) -> Result<()> {
        for column in &mut self.columns {
            if let Some(categories) = &column.ty.categories {
                column.array.set_attribute("categories", json!(categories.values));
            }
        }
        if !self.columns.is_empty() {
            self.ensure_group("vertex_attributes", out)?;
        }
        self.flush_arrays(out)
    }

    /// Adds the document of the group `name` if it does not exist.
    pub(crate) fn ensure_group(&self, name: &str, out: &mut Changes) -> Result<()> {
        out.ensure_group(&self.snap, &format!("{}/{name}", self.path))
    }

    /// Writes the document of the level: counts and claims.
    pub(crate) fn write_level(&mut self, out: &mut Changes) -> Result<()> {
        if !self.fragment_columns.is_empty() {
            self.ensure_group("fragment_attributes", out)?;
        }
        let has_objects = self.objects.as_ref().is_some_and(|objects| objects.count > 0);
        let present = &mut self.doc["attributes"]["zarr_vectors_level"]["arrays_present"];
        if let Some(list) = present.as_array_mut()
            && has_objects
            && !list.iter().any(|listed| listed == "object_index")
        {
            list.push(json!("object_index"));
        }
        if read_doc(&self.snap, &self.path)?.as_ref() != Some(&self.doc) {
            out.put_doc(&self.path, &self.doc)?;
        }
        Ok(())
    }
}
