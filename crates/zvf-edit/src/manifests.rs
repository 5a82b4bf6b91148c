//! The index of objects: the fragments that manifests name, the objects of a fragment, and the new
//! manifests, ids, columns and document of a commit.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use zvf_format::manifest::Manifest;
use zvf_format::{Class, num};

use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{At, EditError, OrFail, Result};
use crate::geometry::{AddedPiece, Geometry};
use crate::indexes::{Objects, count_objects, manifest_bytes, object_number};
use crate::numbers::{FragmentNumber, FragmentNumbers, MAX_OBJECT_REFERENCES};
use crate::rebuild::{ChangedObject, Tally};

/// The encoded manifests of objects.
type Manifests = Vec<(u32, Bytes)>;

impl Geometry {
    /// Writes manifests, ids and columns of objects: of the `changed` objects, and of those with renumbered fragments.
    pub(crate) fn write_objects(
        &mut self,
        changed: &[ChangedObject],
        mut numbers: FragmentNumbers,
        keep_rows: bool,
        tally: &mut Tally,
        out: &mut Changes,
    ) -> Result<()> {
        let Some(rank) = self.objects.as_ref().map(|objects| objects.rank) else { return Ok(()) };
        let counted = self.count_all_vertices()?;
        numbers.sort_unstable();
        let mut manifests = self.renumbered_manifests(rank, changed, &numbers)?;
        manifests.extend(self.changed_manifests(rank, changed, &numbers)?);
        manifests.extend(self.added_manifests(rank)?);
        let Some(mut objects) = self.objects.take() else { return Ok(()) };
        let grew = objects.add_rows(&self.path, keep_rows)?;
        for (object, blob) in manifests {
            if let Some(row) = objects.row(object) {
                objects.manifests.rows.change()[num::usize_from_u32(row)] = blob;
            }
        }
        self.set_object_columns(&objects, grew, tally);
        objects.flush(&self.path, out)?;
        let rows = objects.manifests.len();
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
        numbers: &[FragmentNumber],
    ) -> Result<Manifests> {
        let touched: HashSet<u32> = changed.iter().map(|(object, _)| *object).collect();
        let mut manifests = Vec::new();
        for numbers in numbers.chunk_by(|a, b| a.object == b.object) {
            let object = numbers[0].object;
            if touched.contains(&object) || numbers.iter().all(|number| number.old == number.new) {
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

    /// Encodes the manifests of changed objects.
    fn changed_manifests(
        &self,
        rank: usize,
        changed: &[ChangedObject],
        numbers: &[FragmentNumber],
    ) -> Result<Manifests> {
        let mut manifests = Vec::new();
        for (object, pieces) in changed {
            let state = self.known_object(*object)?;
            let mut list = Vec::new();
            let mut starts = self.starting_pieces(pieces).into_iter();
            let mut unmoved = state.refs.clone();
            for (n, (chunk, vertices)) in pieces.iter().enumerate() {
                let piece = (*object, *chunk, num::index_u32(n));
                let found = numbers.binary_search_by_key(&piece, |number| {
                    (number.object, number.chunk, number.piece)
                });
                let fragment = match found {
                    Ok(found) => numbers[found].new,
                    // The chunk was not rebuilt, so the piece is one of its old fragments.
                    Err(_) => {
                        let is_it = |(at, fragment): &(u32, u32)| {
                            at == chunk
                                && self.chunks[at].fragments.get(*fragment) == Some(vertices)
                        };
                        let place = unmoved.iter().position(is_it);
                        let place = place.or_fail(Class::CountMismatch, || {
                            let chunk = &self.chunk_keys[*chunk];
                            let place = format!("{}: object {}", self.path, state.id);
                            format!(
                                "{place}: a piece of it is no fragment of chunk {chunk:?}; run \"zvf validate\""
                            )
                        })?;
                        unmoved.remove(place).1
                    }
                };
                list.push((&self.chunk_keys[*chunk], fragment, starts.next() == Some(true)));
            }
            manifests.push((*object, manifest_bytes(rank, list)?));
        }
        Ok(manifests)
    }

    /// Encodes the manifests of added objects whose vertices have no numbers.
    fn added_manifests(&self, rank: usize) -> Result<Manifests> {
        let objects = self.pieces.chunk_by(|a, b| a.object == b.object).map(|pieces| {
            let named = |p: &AddedPiece| (&self.chunk_keys[p.chunk], p.fragment, p.starts_line);
            Ok((pieces[0].object, manifest_bytes(rank, pieces.iter().map(named))?))
        });
        objects.collect()
    }

    /// Writes the values of objects to the rows of columns, and the fill value for removed objects.
    fn set_object_columns(&mut self, objects: &Objects, grew: bool, tally: &mut Tally) {
        let count = objects.manifests.len();
        for column in self.object_columns.iter_mut().filter(|column| !column.is_kept()) {
            if grew || column.array.len() < count {
                column.array.resize(count);
            }
            for state in objects.known.values() {
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
        let added = self.known.iter().filter(|(_, object)| object.row.is_none());
        let added: Vec<u32> = added.map(|(number, _)| *number).collect();
        let keep_rows = keep_rows || added.iter().any(|number| self.exists(*number));
        let before = self.manifests.len();
        for number in added.into_iter().filter(|_| keep_rows) {
            let row = object_number(self.manifests.len())?;
            let object = self.know(number);
            object.row = Some(row);
            let id = object.id;
            self.manifests.rows.now.extend([manifest_bytes(self.rank, [])?]);
            self.set_id(path, row, id)?;
        }
        Ok(self.manifests.len() > before)
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

    /// Writes manifests, ids, and the document of the index.
    fn flush(&mut self, path: &str, out: &mut Changes) -> Result<()> {
        let before = self.doc.clone();
        let count = self.manifests.len();
        let attrs = &mut self.doc["attributes"];
        count_objects(attrs, &self.manifests, self.is_new);
        if let Some(ids) = &self.ids {
            attrs["object_ids_sorted"] = json!(num::i64s_from_le(&ids.bytes.now).is_sorted());
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

impl Geometry {
    /// Builds the inverted index from fragments to objects, unless it is loaded.
    pub(crate) fn load_owners(&mut self) -> Result<&HashMap<(u32, u32), Vec<u32>>> {
        if self.owners.is_none() {
            let mut map: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
            for object in self.object_numbers() {
                for reference in self.references(object)? {
                    map.entry(reference).or_default().push(object);
                }
            }
            self.owners = Some(map);
        }
        Ok(self.owners.get_or_insert_default())
    }

    /// Finds the objects with fragments in these chunks. Returns them by chunk and fragment number.
    pub(crate) fn owners_in(
        &mut self,
        chunks: &HashSet<u32>,
    ) -> Result<HashMap<(u32, u32), Vec<u32>>> {
        let Some(objects) = &self.objects else { return Ok(HashMap::new()) };
        let chunk_numbers: HashMap<Vec<u8>, u32> = chunks
            .iter()
            .map(|number| {
                let key = &self.chunk_keys[*number];
                (key.iter().flat_map(|c| c.to_le_bytes()).collect(), *number)
            })
            .collect();
        let width = objects.rank * 8;
        let mut found: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for i in objects.numbers() {
            let Some(row) = objects.row(i) else { continue };
            let blob = objects.manifests.row(row);
            if blob.len() < 4 {
                continue;
            }
            // Fast path: in most manifests, every block names a single fragment.
            let block = width + 9;
            let simple =
                has_blocks_of(blob, block) && blob[4..].chunks_exact(block).all(|b| b[width] == 0);
            if simple {
                for b in blob[4..].chunks_exact(block) {
                    if let Some(number) = chunk_numbers.get(&b[..width]) {
                        let mut fragment = [0_u8; 8];
                        fragment.copy_from_slice(&b[width + 1..]);
                        let fragment = fragment_number(u64::from_le_bytes(fragment))
                            .at(&self.describe_manifest(row))?;
                        found.entry((*number, fragment)).or_default().push(i);
                    }
                }
                continue;
            }
            let references = read_references(blob, objects.rank).at(&self.describe_manifest(row))?;
            for (key, fragment) in references {
                let bytes: Vec<u8> = key.iter().flat_map(|c| c.to_le_bytes()).collect();
                if let Some(number) = chunk_numbers.get(&bytes) {
                    found.entry((*number, fragment)).or_default().push(i);
                }
            }
        }
        Ok(found)
    }

    /// Returns the fragments of an object before the edit, each as chunk number and fragment number.
    pub(crate) fn references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let Some(objects) = &self.objects else { return Ok(Vec::new()) };
        let Some(row) = objects.row(object) else { return Ok(Vec::new()) };
        let blob = objects.manifests.row(row);
        let references = read_references(blob, objects.rank).at(&self.describe_manifest(row))?;
        let list = references.into_iter();
        Ok(list.map(|(key, fragment)| (self.chunk_number(&key), fragment)).collect())
    }

    /// Returns the fragments of an object before the edit in the order of its vertices.
    pub(crate) fn ordered_references(&mut self, object: u32) -> Result<Vec<(u32, u32)>> {
        let mut references = self.references(object)?;
        if !self.is_ordered() {
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
        let Some(objects) = &self.objects else { return Ok(starts) };
        let Some(row) = objects.row(object) else { return Ok(starts) };
        let blob = objects.manifests.row(row);
        if blob.is_empty() || has_blocks_of(blob, objects.rank * 8 + 9) {
            return Ok(starts);
        }
        let mut before = 0;
        for block in Manifest::parse(blob, num::to_u64(objects.rank))?.blocks() {
            // An object has at most `MAX_OBJECT_REFERENCES` fragments.
            before += num::saturating_usize(block.fragments.len());
            if block.fragments.is_empty() && before > 0 {
                starts.insert(before);
            }
        }
        Ok(starts)
    }

    fn describe_manifest(&self, row: u32) -> String {
        format!("{}/object_index/manifests row {row}", self.path)
    }
}

pub(crate) fn missing_fragment_error(level: &str, chunk: &Chunk, fragment: u32) -> EditError {
    let text = format!("{level}/object_index: fragment {fragment} of chunk {chunk:?} is not there");
    EditError::new(Class::OutOfBounds, text)
}

/// Returns whether all blocks of a manifest have so many bytes.
fn has_blocks_of(blob: &[u8], block: usize) -> bool {
    let count = blob.first_chunk().map(|count| u32::from_le_bytes(*count));
    count.is_some_and(|count| num::usize_from_u32(count).checked_mul(block) == Some(blob.len() - 4))
}

/// Parses the fragments that a manifest names, in order.
///
/// # Errors
///
/// When the bytes are not a manifest, or it names too many fragments, or one beyond 32 bits.
pub(crate) fn read_references(blob: &[u8], rank: usize) -> Result<Vec<(Chunk, u32)>> {
    if blob.is_empty() {
        return Ok(Vec::new());
    }
    let manifest = Manifest::parse(blob, num::to_u64(rank))?;
    let references = manifest.references_within(MAX_OBJECT_REFERENCES)?;
    let named = references.map(|reference| {
        let chunk: Chunk = reference.chunk.iter().map(|component| component.get()).collect();
        Ok((chunk, fragment_number(reference.fragment)?))
    });
    named.collect()
}

/// Converts the number of a fragment to 32 bits, or refuses it.
fn fragment_number(fragment: u64) -> Result<u32> {
    u32::try_from(fragment).ok().or_fail(Class::OutOfBounds, || {
        format!("expected a fragment below 2^32, found {fragment}; run \"zvf validate\"")
    })
}
