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
use crate::error::{At, EditError, OrFail, Result};
use crate::geometry::Geometry;
use crate::indexes::{Objects, RowColumn, column_type, open_row_column};
use crate::manifests::{missing_fragment_error, read_references};
use crate::numbers::NONE;
use crate::rebuild::{ChangedObject, Piece};
use crate::scalar::{ColumnType, Scalar};
use crate::snapshot::{Snapshot, doc_key};
use crate::stored_column::find;

pub(crate) const VERTEX_COUNT: &str = "vertex_count";
pub(crate) const SEGMENT_ID: &str = "segment_id";
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
    /// Returns the segment of an object after the edit.
    fn segment_of(&self, object: u32) -> Result<u64> {
        let column = find(&self.object_columns, SEGMENT_ID);
        let value = column.and_then(|column| column.segment(column.row(object)));
        Ok(value.unwrap_or(object.into()))
    }

    /// Returns the segment of a fragment of a rebuilt chunk.
    pub(crate) fn piece_segment(&self, piece: &Piece) -> Result<Vec<u8>> {
        let object = piece.changed.map(|(object, _)| object).or(piece.owners.first().copied());
        let segment = object.map_or(Ok(0), |object| self.segment_of(object))?;
        Ok(segment.to_le_bytes().to_vec())
    }

    /// Sets the segments of the fragments of objects whose segment changed, and of all where
    /// columns came or went.
    pub(crate) fn update_segments(&mut self) -> Result<()> {
        let Some(at) = self.fragment_columns.iter().position(FragmentColumn::is_kept) else {
            return Ok(());
        };
        let segments = find(&self.object_columns, SEGMENT_ID);
        let is_new = segments.is_some_and(|column| column.array.stored.is_new);
        let path = format!("{}/object_attributes/{SEGMENT_ID}", self.path);
        let is_erased = self.erased.keys.contains_key(&doc_key(&path));
        let all = self.fragment_columns[at].is_new || is_new || is_erased;
        for object in self.objects.numbers() {
            let objects = &self.objects;
            let segments = find(&self.object_columns, SEGMENT_ID);
            let is_changed = || segments.is_some_and(|column| column.is_row_changed(object));
            if objects.exists(object) && (all || is_changed()) {
                let segment = self.segment_of(object)?.to_le_bytes();
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
        let mut columns = self.object_columns.iter();
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
        changed: &[ChangedObject],
        rows: usize,
    ) -> Result<()> {
        let Some(at) = self.object_columns.iter().position(RowColumn::is_kept) else {
            return Ok(());
        };
        resize_counts(&mut self.object_columns[at], rows);
        let changed = changed.iter().map(|(object, pieces)| {
            (*object, pieces.iter().map(|(_, vertices)| vertices.len()).sum())
        });
        let added = self.pieces.chunk_by(|a, b| a.object == b.object).map(|pieces| {
            let counts = pieces.iter().map(|piece| num::usize_from_u32(piece.count));
            (pieces[0].object, counts.sum())
        });
        let counts: Vec<(u32, usize)> = counted.into_iter().chain(changed).chain(added).collect();
        for (object, count) in counts {
            if self.objects.has_row(object) {
                self.object_columns[at].set_row(object, &vertex_count(count)?);
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

/// A level with an index of objects.
pub(crate) type Level<'a> = (&'a Rc<Snapshot>, &'a str);

impl Objects {
    /// Writes the columns of fragments that name their object, where the level has them: all of
    /// them, or those in chunks that `emptied` manifests name. `segments` is the column of segments
    /// of objects, where there is one.
    pub(crate) fn write_fragments(
        &self,
        level: Level<'_>,
        emptied: Option<&[Bytes]>,
        segments: Option<&RowColumn>,
        out: &mut Changes,
    ) -> Result<()> {
        if let Some((column, scalar)) = open_fragment_column(level, "object_id")? {
            let owner = |rows: &[u32]| match rows {
                [] => scalar.encode_id(NO_OWNER),
                [row] => scalar.encode_id(self.id_of_row(*row)),
                _ => scalar.encode_id(SEVERAL_OWNERS),
            };
            self.write_column(level, emptied, column, &owner, out)?;
        }
        let column = open_fragment_column(level, SEGMENT_ID)?;
        let is_kept = |scalar: Scalar| is_unsigned(&ColumnType::from_scalar(scalar), 8);
        let Some((column, _)) = column.filter(|(_, scalar)| is_kept(*scalar)) else {
            return Ok(());
        };
        let segment = |rows: &[u32]| {
            let Some(row) = rows.first().copied() else { return Ok(vec![0; 8]) };
            let at = num::usize_from_u32(row);
            let column = segments.filter(|column| at < column.array.len());
            let value = column.and_then(|column| column.segment(column.array.row(at)));
            Ok::<_, EditError>(value.unwrap_or(row.into()).to_le_bytes().to_vec())
        };
        self.write_column(level, emptied, column, &segment, out)
    }

    /// Writes a column: for each fragment the value of the rows that name it.
    fn write_column(
        &self,
        (snap, path): Level<'_>,
        emptied: Option<&[Bytes]>,
        mut column: CellArray,
        value: &dyn Fn(&[u32]) -> Result<Vec<u8>>,
        out: &mut Changes,
    ) -> Result<()> {
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
            let mut cell = Vec::new();
            for fragment in 0..num::index_u32(read_counts(&fragments, &chunk)?.len()) {
                let rows = named.range((fragment, 0)..=(fragment, NONE)).map(|(_, row)| *row);
                cell.extend(value(&rows.collect::<Vec<u32>>()).at(&column.path)?);
            }
            column.put_chunk(&chunk, cell);
        }
        column.flush(out)
    }

    /// Writes the numbers of vertices of all objects of the level, where it has a column of them.
    pub(crate) fn write_vertex_counts(
        &self,
        (snap, path): Level<'_>,
        out: &mut Changes,
    ) -> Result<()> {
        let group = format!("{path}/object_attributes");
        let column = open_row_column(snap, &group, VERTEX_COUNT)?.filter(RowColumn::is_kept);
        let Some(mut column) = column else { return Ok(()) };
        let fragments = CellArray::need(snap, &format!("{path}/vertex_fragments"))?;
        let mut counts: BTreeMap<Chunk, Vec<usize>> = BTreeMap::new();
        for chunk in fragments.chunks() {
            let found = read_counts(&fragments, &chunk)?;
            counts.insert(chunk, found);
        }
        resize_counts(&mut column, self.manifests.len());
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

/// Opens a column of the fragments of a level. Returns it with its type.
fn open_fragment_column(
    (snap, path): Level<'_>,
    name: &str,
) -> Result<Option<(CellArray, Scalar)>> {
    let path = format!("{path}/fragment_attributes/{name}");
    let Some(column) = CellArray::open(snap, &path)? else { return Ok(None) };
    let scalar = column_type(&column.doc["attributes"], 1)?.scalar;
    Ok(Some((column, scalar)))
}

/// Reads the number of rows of each fragment of a chunk.
fn read_counts(fragments: &CellArray, chunk: &Chunk) -> Result<Vec<usize>> {
    let Some(blob) = fragments.read_stored(chunk)? else { return Ok(Vec::new()) };
    let index = FragmentIndex::parse(&blob).at(&fragments.path)?;
    Ok(index.iter().map(|fragment| num::saturating_usize(fragment.len())).collect())
}
