//! The index of objects: the fragments that manifests name, the objects of a fragment, and the new
//! manifests, ids, columns and document of a commit.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::json;
use zvf_format::manifest::Manifest;
use zvf_format::{Class, num};

use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{EditError, OrFail, Result};
use crate::geometry::{Geometry, ObjectPiece};
use crate::indexes::{Objects, has_references, index_path, manifest_bytes};
use crate::numbers::{FragmentNumber, FragmentNumbers, FragmentOwners, MAX_OBJECT_REFERENCES};
use crate::rebuild::Tally;

/// The encoded manifests of objects.
type Manifests = Vec<(u32, Bytes)>;

impl Geometry {
    /// Writes manifests, ids and columns of objects: of the `changed` objects, and of those with renumbered fragments.
    pub(crate) fn write_objects(
        &mut self,
        changed: &BTreeSet<u32>,
        mut numbers: FragmentNumbers,
        keep_rows: bool,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        if !self.has_objects {
            return Ok(());
        }
        let rank = self.objects.rank;
        let counted = self.count_all_vertices()?;
        numbers.sort_unstable();
        let mut manifests = self.renumbered_manifests(rank, changed, &numbers)?;
        manifests.extend(self.written_manifests(rank, changed)?);
        let objects = &mut self.objects;
        let grew = objects.add_rows(keep_rows)?;
        for (object, blob) in manifests {
            if objects.has_row(object) {
                objects.manifests.rows.change()[num::usize_from_u32(object)] = blob;
            }
        }
        objects.finish_columns(grew, tally);
        self.set_vertex_counts(counted, changed, self.objects.manifests.len())?;
        if !self.objects.columns.is_empty() {
            self.ensure_group("object_attributes", out)?;
        }
        self.objects.flush(out)
    }

    /// Encodes the manifests of unchanged objects whose fragments were renumbered.
    fn renumbered_manifests(
        &mut self,
        rank: usize,
        changed: &BTreeSet<u32>,
        numbers: &[FragmentNumber],
    ) -> Result<Manifests> {
        let mut manifests = Vec::new();
        for numbers in numbers.chunk_by(|a, b| a.object == b.object) {
            let object = numbers[0].object;
            if changed.contains(&object) {
                continue;
            }
            let map: HashMap<(u32, u32), u32> =
                numbers.iter().map(|number| ((number.chunk, number.old), number.new)).collect();
            let (references, lines) = (self.references(object)?, self.line_starts(object)?);
            let list = references.iter().enumerate().map(|(n, (chunk, fragment))| {
                let fragment = map.get(&(*chunk, *fragment)).unwrap_or(fragment);
                (&self.chunk_keys[*chunk], *fragment, lines.contains(&n))
            });
            manifests.push((object, manifest_bytes(rank, list)?));
        }
        Ok(manifests)
    }

    /// Encodes the manifests of changed and added objects, and empty ones of removed objects.
    fn written_manifests(&self, rank: usize, changed: &BTreeSet<u32>) -> Result<Manifests> {
        let named = |p: &ObjectPiece| (&self.chunk_keys[p.chunk], p.fragment, p.starts_line);
        let none = changed.iter().map(|object| Ok((*object, manifest_bytes(rank, [])?)));
        let objects = self
            .pieces
            .chunk_by(|a, b| a.object == b.object)
            .map(|pieces| Ok((pieces[0].object, manifest_bytes(rank, pieces.iter().map(named))?)));
        none.chain(objects).collect()
    }
}

impl Objects {
    /// Gives the columns the rows of the index, with the fill value for removed objects, and counts
    /// the objects whose values changed.
    fn finish_columns(&mut self, grew: bool, tally: &mut Tally) {
        let count = self.manifests.len();
        // Objects that were added and removed may have values and no rows.
        let is_other = grew || num::usize_from_u32(self.count) > count;
        for column in self.columns.iter_mut().filter(|column| !column.is_kept()) {
            for (number, state) in self.known.range(..num::index_u32(count)) {
                let is_changed = column.is_row_changed(*number);
                // The rows of objects that were removed before stay as they are.
                if !state.exists && (state.existed || is_changed) {
                    column.set_row(*number, &column.array.fill.clone());
                } else if state.existed && is_changed {
                    tally.changed.insert(state.id);
                }
            }
            if is_other || column.array.len() < count {
                column.array.resize(count);
            }
        }
    }

    /// Appends rows for new objects. Returns whether there were any.
    ///
    /// Rows are in the order of creation, including objects that were removed again, so that ids ascend with rows as they
    /// do at levels built from these.
    fn add_rows(&mut self, keep_rows: bool) -> Result<bool> {
        let mut added = num::index_u32(self.manifests.len())..self.count;
        if !keep_rows && !added.clone().any(|number| self.exists(number)) {
            return Ok(false);
        }
        let grew = !added.is_empty();
        added.try_for_each(|number| {
            self.manifests.rows.now.extend([manifest_bytes(self.rank, [])?]);
            self.set_id(number, self.id(number))
        })?;
        Ok(grew)
    }

    /// Sets the id of the last row, which is new.
    pub(crate) fn set_id(&mut self, row: u32, id: i64) -> Result<()> {
        if self.ids.is_none() && id == i64::from(row) {
            return Ok(()); // the row is the id
        }
        let ids = match &mut self.ids {
            Some(ids) => ids,
            None => {
                // From this row on, ids differ from rows: create the list of ids.
                let mut ids = DenseArray::create_ids(&index_path(&self.path))?;
                ids.set_ids(0, 0..i64::from(row));
                if self.manifests.table.is_none() {
                    self.doc["attributes"]["layout"] = json!("vlen_manifests_v2");
                }
                self.ids.insert(ids)
            }
        };
        ids.set_ids(num::usize_from_u32(row), [id]);
        Ok(())
    }

    /// Writes manifests, ids, columns, and the document of the index.
    pub(crate) fn flush(&mut self, out: &mut Changes) -> Result<()> {
        let before = self.doc.clone();
        let count = self.manifests.len();
        let attrs = &mut self.doc["attributes"];
        attrs["num_objects"] = json!(count);
        if self.is_new || attrs.get("num_present").is_some() {
            let present = self.manifests.rows.now.iter().filter(|row| has_references(row));
            attrs["num_present"] = json!(present.count());
        }
        if let Some(ids) = &self.ids {
            attrs["object_ids_sorted"] = json!(num::i64s_from_le(&ids.bytes.now).is_sorted());
        }
        if self.doc != before || self.is_new && count > 0 {
            out.put_doc(&index_path(&self.path), &self.doc)?;
        }
        if count > 0 || !self.is_new {
            self.manifests.flush(out, MAX_INDEX_CHUNK_ROWS)?;
            if let Some(ids) = &mut self.ids {
                ids.flush(out, true)?;
            }
        }
        self.columns.iter_mut().try_for_each(|column| column.array.flush(out, false))
    }
}

/// Maximum rows in a chunk of the object index, as the reference implementation writes it.
pub(crate) const MAX_INDEX_CHUNK_ROWS: usize = 16384;

impl Geometry {
    /// Builds the inverted index from fragments to objects, unless it is loaded.
    pub(crate) fn load_owners(&mut self) -> Result<&FragmentOwners> {
        if self.owners.is_none() {
            let all = self.all_chunks().into_iter().collect();
            self.owners = Some(self.owners_in(&all)?);
        }
        Ok(self.owners.get_or_insert_default())
    }

    /// Finds the objects with fragments in these chunks.
    pub(crate) fn owners_in(&self, chunks: &HashSet<u32>) -> Result<FragmentOwners> {
        let key = |number: &u32| (self.chunk_keys[*number].as_slice(), *number);
        let numbers: FxHashMap<&[i64], u32> = chunks.iter().map(key).collect();
        let mut found = FragmentOwners::new();
        for object in self.objects.numbers() {
            self.objects.visit_references(object, |chunk, fragment| {
                if let Some(number) = numbers.get(chunk) {
                    found.entry((*number, fragment)).or_default().push(object);
                }
            })?;
        }
        Ok(found)
    }

    /// Returns the fragments of an object before the edit, each as chunk number and fragment number.
    pub(crate) fn references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let (keys, mut list) = (&mut self.chunk_keys, Vec::new());
        let add = |chunk: &[i64], fragment| list.push((keys.number(chunk), fragment));
        self.objects.visit_references(object, add)?;
        Ok(list)
    }

    /// Returns the fragments of an object before the edit in the order of its vertices.
    pub(crate) fn ordered_references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let mut references = self.references(object)?;
        if !self.kind.is_chain() {
            let key = |chunk: u32| &self.chunk_keys[chunk];
            references.sort_by(|a, b| key(a.0).cmp(key(b.0)));
        }
        Ok(references)
    }

    /// Returns the error of an object that names a fragment which is not there.
    pub(crate) fn missing_fragment(&self, chunk: u32, fragment: u32) -> EditError {
        missing_fragment_error(&self.path, &self.chunk_keys[chunk], fragment)
    }

    /// Returns the fragments of an object before the edit with which another line starts, by their place in its manifest.
    pub(crate) fn line_starts(&self, object: u32) -> Result<HashSet<usize>> {
        let mut starts = HashSet::new();
        let blob = self.objects.manifest(object);
        if blob.is_empty() {
            return Ok(starts);
        }
        let mut before = 0;
        for block in Manifest::parse(blob, num::to_u64(self.objects.rank))?.blocks() {
            // An object has at most `MAX_OBJECT_REFERENCES` fragments.
            before += num::saturating_usize(block.fragments.len());
            if block.fragments.is_empty() && before > 0 {
                starts.insert(before);
            }
        }
        Ok(starts)
    }
}

impl Objects {
    /// Calls `each` with the chunk and the number of every fragment of an object before the edit,
    /// in order.
    fn visit_references(&self, object: u32, each: impl FnMut(&[i64], u32)) -> Result<()> {
        let place = |error: EditError| {
            error.with_place(&format!("{} row {object}", self.manifests.stored.path))
        };
        visit_references(self.manifest(object), self.rank, each).map_err(place)
    }
}

pub(crate) fn missing_fragment_error(level: &str, chunk: &Chunk, fragment: u32) -> EditError {
    let text = format!("{level}/object_index: fragment {fragment} of chunk {chunk:?} is not there");
    EditError::new(Class::OutOfBounds, text)
}

/// Calls `each` with the chunk and the number of every fragment that a manifest names, in order.
///
/// # Errors
///
/// When the bytes are not a manifest, or it names too many fragments, or one beyond 32 bits.
fn visit_references(blob: &[u8], rank: usize, mut each: impl FnMut(&[i64], u32)) -> Result<()> {
    if blob.is_empty() {
        return Ok(());
    }
    let (manifest, mut chunk) = (Manifest::parse(blob, num::to_u64(rank))?, Chunk::new());
    for reference in manifest.references_within(MAX_OBJECT_REFERENCES)? {
        chunk.clear();
        chunk.extend(reference.chunk.iter().map(|component| component.get()));
        let fragment = reference.fragment;
        each(
            &chunk,
            u32::try_from(fragment).ok().or_fail(Class::OutOfBounds, || {
                format!("expected a fragment below 2^32, found {fragment}; run \"zvf validate\"")
            })?,
        );
    }
    Ok(())
}

/// Returns the fragments that a manifest names, in order.
pub(crate) fn read_references(blob: &[u8], rank: usize) -> Result<Vec<(Chunk, u32)>> {
    let mut list = Vec::new();
    visit_references(blob, rank, |chunk, fragment| list.push((chunk.to_vec(), fragment)))?;
    Ok(list)
}
