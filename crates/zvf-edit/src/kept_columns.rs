//! Columns that the store keeps: they follow from other arrays, and viewers and tools expect them.
//!
//! ```text
//! object_attributes/vertex_count    uint32, for each row of the index the rows of all fragments of its manifest
//! fragment_attributes/segment_id    uint64, for each fragment the segment of an object that has it, else 0
//! fragment_attributes/object_id     the id of the object that has it, -1 for none, -2 for several
//! ```
//!
//! The segment of an object is its value in `object_attributes/segment_id`, where there is such a
//! column of integers, else the number of its row. Columns of other types with these names belong
//! to the user.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use zvf_format::fragment::FragmentIndex;
use zvf_format::{Class, num};
use zvf_metadata::DtypeKind;
use zvf_model::Value;

use crate::arrays::{CellArray, Chunk};
use crate::cell_column::FragmentColumn;
use crate::changes::Changes;
use crate::error::{At, OrFail, Result};
use crate::geometry::Geometry;
use crate::indexes::{Objects, RowColumn, column_type, columns_path};
use crate::manifests::{missing_fragment_error, read_references};
use crate::numbers::NONE;
use crate::scalar::ColumnType;
use crate::snapshot::{Snapshot, doc_key};
use crate::stored_column::find;

pub(crate) const VERTEX_COUNT: &str = "vertex_count";
pub(crate) const SEGMENT_ID: &str = "segment_id";
pub(crate) const OBJECT_ID: &str = "object_id";
/// The owner of a fragment that no object has, and of one that several have.
const NO_OWNER: i64 = -1;
const SEVERAL_OWNERS: i64 = -2;

impl RowColumn {
    /// Returns whether the store keeps the column: the number of vertices of each object.
    pub(crate) fn is_kept(&self) -> bool {
        self.name == VERTEX_COUNT && is_unsigned(&self.ty, 4)
    }

    /// Returns a value of the column as a segment, if the column is one of segments.
    fn segment(&self, row: &[u8]) -> Option<u64> {
        match self.ty.decode_value(row, 0) {
            Value::Int(value) => Some(value.cast_unsigned()),
            Value::UInt(value) => Some(value),
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
        }
        .filter(|_| self.ty.width == 1)
    }
}

impl FragmentColumn {
    /// Returns whether the store keeps the column: the segment of each fragment.
    pub(crate) fn is_kept(&self) -> bool {
        self.name == SEGMENT_ID && is_unsigned(&self.ty, 8)
    }
}

/// Returns whether a column has one number without a sign in each row, of so many bytes.
fn is_unsigned(ty: &ColumnType, bytes: usize) -> bool {
    ty.width == 1 && ty.scalar.kind() == DtypeKind::UInt && ty.scalar.size() == bytes
}

impl Geometry {
    /// Sets the segments of the fragments of objects whose segment changed, and of all where
    /// columns came or went.
    pub(crate) fn update_segments(&mut self) -> Result<()> {
        let Some(at) = self.fragment_columns.iter().position(FragmentColumn::is_kept) else {
            return Ok(());
        };
        let segments = find(&self.objects.columns, SEGMENT_ID);
        let is_new = segments.is_some_and(|column| column.array.stored.is_new);
        let path = format!("{}/{SEGMENT_ID}", columns_path(&self.path));
        let is_erased = self.erased.keys.contains_key(&doc_key(&path));
        let all = self.fragment_columns[at].is_new || is_new || is_erased;
        for object in self.objects.numbers() {
            let objects = &self.objects;
            let segments = find(&objects.columns, SEGMENT_ID);
            let is_changed = || segments.is_some_and(|column| column.is_row_changed(object));
            if objects.exists(object) && (all || is_changed()) {
                let segment = self.objects.segment_of(object).to_le_bytes();
                let references = self.references(object)?;
                let set = references.into_iter().map(|place| (place, segment.to_vec()));
                self.fragment_columns[at].data.extend(set);
            }
        }
        if self.fragment_columns[at].is_new {
            self.fragment_columns[at].fill = vec![0; 8];
        }
        Ok(())
    }

    /// Counts the vertices of all objects where the column of them is new. Manifests are those
    /// before the edit.
    pub(crate) fn count_all_vertices(&mut self) -> Result<Vec<(u32, usize)>> {
        let mut columns = self.objects.columns.iter();
        if !columns.any(|column| column.is_kept() && column.array.stored.is_new) {
            return Ok(Vec::new());
        }
        let counts = self.objects.numbers().map(|object| {
            self.load_object(object)?;
            Ok((object, self.vertices_of(object).len()))
        });
        counts.collect()
    }

    /// Sets the numbers of vertices of the `counted` objects, and of changed, removed and new ones.
    pub(crate) fn set_vertex_counts(
        &mut self,
        counted: Vec<(u32, usize)>,
        changed: &BTreeSet<u32>,
        rows: usize,
    ) -> Result<()> {
        let Some(at) = self.objects.columns.iter().position(RowColumn::is_kept) else {
            return Ok(());
        };
        resize_counts(&mut self.objects.columns[at], rows);
        // Those that are removed have none.
        let changed = changed.iter().map(|object| (*object, 0));
        let written = self.pieces.chunk_by(|a, b| a.object == b.object).map(|pieces| {
            let counts = pieces.iter().map(|piece| num::usize_from_u32(piece.count));
            (pieces[0].object, counts.sum())
        });
        let counts: Vec<_> = counted.into_iter().chain(changed).chain(written).collect();
        for (object, count) in counts {
            if self.objects.has_row(object) {
                self.objects.columns[at].set_row(object, &vertex_count(count)?);
            }
        }
        Ok(())
    }
}

/// Appends counts of 0 or drops counts, so that there are `rows`.
fn resize_counts(column: &mut RowColumn, rows: usize) {
    let missing = rows.saturating_sub(column.array.len()); // none where counts are dropped
    column.array.bytes.now.extend([0; 4].repeat(missing));
    column.array.resize(rows);
}

/// Encodes a number of vertices.
fn vertex_count(count: usize) -> Result<[u8; 4]> {
    let count = u32::try_from(count).ok().or_fail(Class::LimitExceeded, || {
        format!("an object has {count} vertices, more than 2^32")
    })?;
    Ok(count.to_le_bytes())
}

impl Objects {
    /// Returns the segment of an object, from the column of segments if that is opened.
    fn segment_of(&self, object: u32) -> u64 {
        let column = find(&self.columns, SEGMENT_ID);
        let value = column.and_then(|column| column.segment(column.row(object)));
        value.unwrap_or(object.into())
    }

    /// Returns the value of a fragment of these objects in a column, given by its name and type;
    /// `None` in a column that the store does not keep.
    pub(crate) fn owner_value(
        &self,
        (name, ty): (&str, &ColumnType),
        owners: &[u32],
    ) -> Result<Option<Vec<u8>>> {
        match (name, owners) {
            (SEGMENT_ID, _) if is_unsigned(ty, 8) => {
                let segment = owners.first().map_or(0, |object| self.segment_of(*object));
                Ok(Some(segment.to_le_bytes().to_vec()))
            }
            (OBJECT_ID, []) => ty.scalar.encode_id(NO_OWNER).map(Some),
            (OBJECT_ID, [object]) => ty.scalar.encode_id(self.id(*object)).map(Some),
            (OBJECT_ID, _) => ty.scalar.encode_id(SEVERAL_OWNERS).map(Some),
            _ => Ok(None),
        }
    }

    /// Writes the columns of fragments that name their object, where the level has them: all of
    /// them, or those in chunks that `emptied` manifests name. The column of segments is opened,
    /// where there is one.
    pub(crate) fn write_fragments(
        &self,
        snap: &Rc<Snapshot>,
        emptied: Option<&[Bytes]>,
        out: &mut Changes,
    ) -> Result<()> {
        let path = &self.path;
        let mut columns = Vec::new();
        for name in [OBJECT_ID, SEGMENT_ID] {
            let array = CellArray::open(snap, &format!("{path}/fragment_attributes/{name}"))?;
            let Some(array) = array else { continue };
            let ty = column_type(&array.doc["attributes"], 1)?;
            if name == OBJECT_ID || is_unsigned(&ty, 8) {
                columns.push((name, ty, array));
            }
        }
        if columns.is_empty() {
            return Ok(());
        }
        let references = |blob: &Bytes| read_references(blob, self.rank).at(path);
        let mut only = BTreeSet::new();
        for blob in emptied.into_iter().flatten() {
            only.extend(references(blob)?.into_iter().map(|(chunk, _)| chunk));
        }
        let is_written = |chunk: &Chunk| emptied.is_none() || only.contains(chunk);
        let mut named: BTreeMap<Chunk, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for (row, blob) in (0..).zip(&self.manifests.rows.now) {
            for (chunk, fragment) in references(blob)? {
                if is_written(&chunk) {
                    named.entry(chunk).or_default().insert((fragment, row));
                }
            }
        }
        let fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
        for chunk in fragments.chunks().into_iter().filter(is_written) {
            let named = named.remove(&chunk).unwrap_or_default(); // no object is here
            let count = num::index_u32(read_counts(&fragments, &chunk)?.len());
            for (name, ty, array) in &mut columns {
                let mut cell = Vec::new();
                for fragment in 0..count {
                    let rows = named.range((fragment, 0)..=(fragment, NONE)).map(|(_, row)| *row);
                    let rows: Vec<u32> = rows.collect();
                    let value = self.owner_value((name, ty), &rows).at(&array.path)?;
                    cell.extend(value.into_iter().flatten());
                }
                array.put_chunk(&chunk, cell);
            }
        }
        columns.iter_mut().try_for_each(|(_, _, array)| array.flush(out))
    }

    /// Writes the numbers of vertices of all objects of the level, where a column of them is opened.
    pub(crate) fn write_vertex_counts(
        &mut self,
        snap: &Rc<Snapshot>,
        out: &mut Changes,
    ) -> Result<()> {
        let column = self.columns.iter_mut().find(|column| column.is_kept());
        let (path, Some(column)) = (&self.path, column) else { return Ok(()) };
        let fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
        let mut counts: BTreeMap<Chunk, Vec<usize>> = BTreeMap::new();
        for chunk in fragments.chunks() {
            let found = read_counts(&fragments, &chunk)?;
            counts.insert(chunk, found);
        }
        resize_counts(column, self.manifests.len());
        for (row, manifest) in self.manifests.rows.now.iter().enumerate() {
            let mut total = 0;
            for (chunk, fragment) in read_references(manifest, self.rank).at(path)? {
                let count = counts.get(&chunk).and_then(|counts| counts.get(fragment as usize));
                total += count.ok_or_else(|| missing_fragment_error(path, &chunk, fragment))?;
            }
            column.array.set_row(row, &vertex_count(total)?);
        }
        column.array.flush(out, false)
    }
}

/// Reads the number of rows of each fragment of a chunk.
fn read_counts(fragments: &CellArray, chunk: &Chunk) -> Result<Vec<usize>> {
    let Some(blob) = fragments.read_stored(chunk)? else { return Ok(Vec::new()) };
    let index = FragmentIndex::parse(&blob).at(&fragments.path)?;
    Ok(index.iter().map(|fragment| num::saturating_usize(fragment.len())).collect())
}
