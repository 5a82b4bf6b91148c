//! Writes the index of objects: manifests, ids, columns, and the document of the index.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use zvf_format::{Class, num};

use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{EditError, Result};
use crate::geometry::Geometry;
use crate::indexes::{Objects, count_objects, manifest_bytes, object_number};
use crate::rebuild::{ChangedObject, FragmentNumbers, Tally};

/// The encoded manifests of objects.
type Manifests = Vec<(u32, Bytes)>;

impl Geometry {
    /// Writes manifests, ids and columns of objects: of the `changed` objects, and of those with renumbered fragments.
    pub(crate) fn write_objects(
        &mut self,
        changed: &[ChangedObject],
        numbers: FragmentNumbers,
        keep_rows: bool,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        let Some(rank) = self.objects.as_ref().map(|objects| objects.rank) else { return Ok(()) };
        let counted = self.count_all_vertices()?;
        let mut manifests = self.renumbered_manifests(rank, changed, &numbers)?;
        manifests.extend(self.changed_manifests(rank, changed, &numbers)?);
        manifests.extend(self.added_manifests(rank)?);
        let Some(mut objects) = self.objects.take() else { return Ok(()) };
        let grew = objects.add_rows(&self.path, keep_rows)?;
        for (object, blob) in manifests {
            if let Some(row) = objects.list[num::usize_from_u32(object)].row {
                objects.manifests.rows[num::usize_from_u32(row)] = blob;
            }
        }
        self.set_object_columns(&objects, grew, tally);
        objects.flush(&self.path, out)?;
        let rows = objects.manifests.rows.len();
        self.objects = Some(objects);
        self.set_vertex_counts(counted, changed, rows)?;
        if !self.object_columns.is_empty() {
            self.ensure_group("object_attributes", out)?;
        }
        for column in &mut self.object_columns {
            column.array.flush(out, false)?;
        }
        Ok(())
    }

    /// Encodes the manifests of unchanged objects whose fragments were renumbered.
    fn renumbered_manifests(
        &mut self,
        rank: usize,
        changed: &[ChangedObject],
        numbers: &FragmentNumbers,
    ) -> Result<Manifests> {
        let touched: HashSet<u32> = changed.iter().map(|(object, _)| *object).collect();
        let mut others: BTreeMap<u32, HashMap<(u32, u32), u32>> = BTreeMap::new();
        for ((object, chunk), list) in numbers {
            for (old, _, new) in list {
                if !touched.contains(object) && old != new {
                    others.entry(*object).or_default().insert((*chunk, *old), *new);
                }
            }
        }
        let mut manifests = Vec::new();
        for (object, map) in others {
            let (references, lines) = (self.references(object)?, self.line_starts(object)?);
            let list: Vec<(Chunk, u32, bool)> = (0..)
                .zip(&references)
                .map(|(n, (chunk, fragment))| {
                    let fragment = map.get(&(*chunk, *fragment)).copied().unwrap_or(*fragment);
                    let key = self.chunk_keys[num::usize_from_u32(*chunk)].clone();
                    (key, fragment, lines.contains(&n))
                })
                .collect();
            manifests.push((object, manifest_bytes(rank, &list)?));
        }
        Ok(manifests)
    }

    /// Encodes the manifests of changed objects.
    fn changed_manifests(
        &self,
        rank: usize,
        changed: &[ChangedObject],
        numbers: &FragmentNumbers,
    ) -> Result<Manifests> {
        let mut manifests = Vec::new();
        for (object, pieces) in changed {
            let state = self.known_object(*object)?;
            let mut list: Vec<(Chunk, u32, bool)> = Vec::new();
            let mut starts = self.starting_pieces(pieces).into_iter();
            let mut unmoved = state.refs.clone();
            for (n, (chunk, vertices)) in pieces.iter().enumerate() {
                let found = numbers
                    .get(&(*object, *chunk))
                    .and_then(|list| list.iter().find(|(_, piece, _)| *piece == Some(n)));
                let fragment = match found {
                    Some((_, _, new)) => *new,
                    // The chunk was not rebuilt, so the piece is one of its old fragments.
                    None => {
                        let place = unmoved.iter().position(|(at, fragment)| {
                            at == chunk
                                && self.chunks[at].fragments.get(num::usize_from_u32(*fragment))
                                    == Some(vertices)
                        });
                        let place = place.ok_or_else(|| {
                            let text = format!(
                                "{}: object {}: a piece of it is no fragment of chunk {:?}; run \"zvf validate\"",
                                self.path, state.id, self.chunk_keys[num::usize_from_u32(*chunk)]
                            );
                            EditError::new(Class::CountMismatch, text)
                        })?;
                        unmoved.remove(place).1
                    }
                };
                let key = self.chunk_keys[num::usize_from_u32(*chunk)].clone();
                list.push((key, fragment, starts.next() == Some(true)));
            }
            manifests.push((*object, manifest_bytes(rank, &list)?));
        }
        Ok(manifests)
    }

    /// Encodes the manifests of added objects whose vertices have no numbers.
    fn added_manifests(&self, rank: usize) -> Result<Manifests> {
        let mut manifests = Vec::new();
        for pieces in self.pieces.chunk_by(|a, b| a.object == b.object) {
            let key = |chunk: u32| self.chunk_keys[num::usize_from_u32(chunk)].clone();
            let list = pieces.iter().map(|p| (key(p.chunk), p.fragment, p.starts_line));
            manifests.push((pieces[0].object, manifest_bytes(rank, &list.collect::<Vec<_>>())?));
        }
        Ok(manifests)
    }

    /// Writes the values of objects to the rows of columns, and the fill value for removed objects.
    fn set_object_columns(&mut self, objects: &Objects, grew: bool, tally: &mut Tally) {
        let count = objects.manifests.rows.len();
        for column in self.object_columns.iter_mut().filter(|column| !column.is_kept()) {
            if grew || column.array.len() < count {
                column.array.resize(count);
            }
            for state in &objects.list {
                let Some(row) = state.row else { continue };
                if !state.exists && state.existed {
                    column.array.set_row(num::usize_from_u32(row), &column.array.fill.clone());
                } else if let (Some(value), true) = (state.values.get(&column.name), state.exists) {
                    if column.array.row(num::usize_from_u32(row)) != value && state.existed {
                        tally.changed.insert(state.id);
                    }
                    column.array.set_row(num::usize_from_u32(row), value);
                }
            }
        }
    }
}

impl Objects {
    /// Appends rows for new objects. Returns whether there were any.
    ///
    /// Rows are in the order of creation, including objects that were removed again, so that ids ascend with rows as they
    /// do at levels built from these.
    fn add_rows(&mut self, path: &str, keep_rows: bool) -> Result<bool> {
        let keep_rows =
            keep_rows || self.list.iter().any(|state| state.row.is_none() && state.exists);
        let before = self.manifests.rows.len();
        for number in 0..self.list.len() {
            let state = &mut self.list[number];
            if state.row.is_none() && (state.exists || keep_rows) {
                let row = object_number(self.manifests.rows.len())?;
                state.row = Some(row);
                let id = state.id;
                self.manifests.rows.push(manifest_bytes(self.rank, &[])?);
                self.set_id(path, row, id)?;
            }
        }
        Ok(self.manifests.rows.len() > before)
    }

    /// Sets the id of the last row, which is new.
    fn set_id(&mut self, path: &str, row: u32, id: i64) -> Result<()> {
        if self.ids.is_none() && id == i64::from(row) {
            return Ok(()); // the row is the id
        }
        let ids = match &mut self.ids {
            Some(ids) => ids,
            None => {
                // From this row on, ids differ from rows: create the list of ids.
                let mut ids = DenseArray::create_ids(&format!("{path}/object_index"))?;
                ids.resize(num::usize_from_u32(row));
                for earlier in 0..row {
                    ids.set_row(num::usize_from_u32(earlier), &i64::from(earlier).to_le_bytes());
                }
                if self.manifests.table.is_none() {
                    self.doc["attributes"]["layout"] = json!("vlen_manifests_v2");
                }
                self.ids.insert(ids)
            }
        };
        ids.resize(num::usize_from_u32(row) + 1);
        ids.set_row(num::usize_from_u32(row), &id.to_le_bytes());
        Ok(())
    }

    /// Writes manifests, ids, and the document of the index.
    fn flush(&mut self, path: &str, out: &mut Changes) -> Result<()> {
        let before = self.doc.clone();
        let count = self.manifests.rows.len();
        let attrs = &mut self.doc["attributes"];
        count_objects(attrs, &self.manifests, self.is_new);
        if let Some(ids) = &self.ids {
            attrs["object_ids_sorted"] = json!(num::i64s_from_le(&ids.bytes).is_sorted());
        }
        if self.doc != before || self.is_new && count > 0 {
            out.put_doc(&format!("{path}/object_index"), &self.doc)?;
        }
        if count > 0 || !self.is_new {
            self.manifests.flush(out, MAX_INDEX_CHUNK_ROWS)?;
            if let Some(ids) = &mut self.ids {
                ids.flush(out, true)?;
            }
        }
        Ok(())
    }
}

/// Maximum rows in a chunk of the object index, as the reference implementation writes it.
pub(crate) const MAX_INDEX_CHUNK_ROWS: usize = 16384;
