//! Reads the index of objects, columns of objects and groups, and the types of columns.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;
use zvf_format::manifest::ManifestBuilder;
use zvf_format::{Class, num};
use zvf_metadata::DtypeKind;

use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::dense::DenseArray;
use crate::error::{OrFail, Result, fail, unsupported};
use crate::numbers::{NONE, Vid};
use crate::row_array::{DENSE_LAYOUT, ManifestTable, RowArray};
use crate::scalar::{Categories, ColumnType, Scalar};
use crate::snapshot::{Snapshot, doc_key, read_doc, read_member};
use crate::stored_column::{StoredColumn, sibling_path};

/// An object that was loaded, changed or added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) id: i64,
    pub(crate) exists: bool,
    pub(crate) existed: bool,
    pub(crate) loaded: bool,
    pub(crate) touched: bool,
    pub(crate) vertices: Vec<Vid>,
    pub(crate) vertices_before: Vec<Vid>,
    /// The fragments of its manifest in order, each as chunk number and fragment number.
    pub(crate) refs: Vec<(u32, u32)>,
}

/// Bytes of a loaded object, without its vertices and fragments.
pub(crate) const OBJECT_BYTES: usize = size_of::<Object>() + 160;

/// The objects of a kind. The number of an object is its row in the index and in columns. The
/// commit appends rows for added objects to the index.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    /// The path of the level.
    pub(crate) path: String,
    pub(crate) doc: Json,
    pub(crate) is_new: bool,
    pub(crate) manifests: RowArray,
    pub(crate) ids: Option<DenseArray>,
    /// The columns of objects that were opened.
    pub(crate) columns: Vec<RowColumn>,
    pub(crate) rank: usize,
    /// The number of rows before the edit.
    stored: u32,
    /// These rows by ascending id, where they are not so already.
    order: Option<Vec<u32>>,
    pub(crate) count: u32,
    /// The objects that were loaded, changed or added, by number.
    pub(crate) known: BTreeMap<u32, Object>,
    /// The numbers of added objects by id.
    added: FxHashMap<i64, u32>,
}

/// A column of objects or groups.
#[derive(Clone, Debug)]
pub(crate) struct RowColumn {
    pub(crate) name: String,
    pub(crate) array: DenseArray,
    pub(crate) ty: ColumnType,
}

impl StoredColumn for RowColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn push_removal(&self, out: &mut Changes) -> Result<()> {
        self.array.push_removal(out);
        Ok(())
    }

    fn rename(&mut self, to: &str) -> Result<()> {
        to.clone_into(&mut self.name);
        self.array = self.array.copy_to(&sibling_path(&self.array.stored.path, to));
        self.array.stored.doc["attributes"]["name"] = to.into();
        Ok(())
    }
}

impl RowColumn {
    /// Returns the row of an object; the fill value where there is none.
    pub(crate) fn row(&self, object: u32) -> &[u8] {
        let row = num::usize_from_u32(object);
        if row < self.array.len() { self.array.row(row) } else { &self.array.fill }
    }

    /// Returns whether the row of an object has another value than before the edit.
    pub(crate) fn is_row_changed(&self, object: u32) -> bool {
        let (row, size) = (num::usize_from_u32(object), self.array.size);
        let before = self.array.bytes.old().get(row * size..(row + 1) * size);
        self.row(object) != before.unwrap_or(&self.array.fill)
    }

    /// Sets the row of an object.
    pub(crate) fn set_row(&mut self, object: u32, value: &[u8]) {
        let row = num::usize_from_u32(object);
        self.array.resize(self.array.len().max(row + 1));
        self.array.set_row(row, value);
    }

    /// Returns whether the document says that the fill value means absent.
    fn states_absence(&self) -> bool {
        let attrs = &self.array.stored.doc["attributes"];
        attrs["fill_sentinel_meaning"] == "absent" || attrs["has_present_mask"] == true
    }

    /// Returns whether a row can be absent: a number other than NaN is only where the document says so.
    pub(crate) fn can_be_absent(&self) -> bool {
        matches!(self.ty.scalar.kind(), DtypeKind::Float | DtypeKind::Text) || self.states_absence()
    }

    /// Returns whether a row is absent, or as one that was never set.
    pub(crate) fn is_missing(&self, row: &[u8]) -> bool {
        let is_unset = self.ty.scalar.kind() != DtypeKind::Bool && row == self.ty.sentinel();
        is_unset || self.is_absent(row)
    }

    /// Returns whether a row is absent.
    pub(crate) fn is_absent(&self, row: &[u8]) -> bool {
        let is_number = self.ty.scalar.is_float() && !self.ty.scalar.to_f64(row).is_nan();
        let means_absent = self.states_absence() || (self.can_be_absent() && !is_number);
        means_absent && row == self.array.fill
    }
}

impl Objects {
    /// Opens the index of a level, without columns.
    pub(crate) fn open(snap: &Snapshot, level: &str, axes: usize) -> Result<Option<Self>> {
        let path = &index_path(level);
        let Some(doc) = read_doc(snap, path)? else { return Ok(None) };
        let attrs = &doc["attributes"];
        let Some(manifests) = RowArray::open_manifests(snap, path)? else { return Ok(None) };
        let rows = manifests.len();
        let count = read_count(path, attrs, "num_objects")?.unwrap_or(rows);
        if count > rows {
            let text = format!(
                "{path}, num_objects: expected at most {rows}, a row of manifests for each, found {count}; run \"zvf validate\""
            );
            return fail(Class::CountMismatch, text);
        }
        let mut manifests = manifests;
        manifests.truncate(count);
        let ids = match attrs["layout"].as_str() {
            Some("vlen_manifests_v2" | DENSE_LAYOUT) => DenseArray::open_ids(snap, path)?,
            Some("vlen_manifests_v1") => None,
            _ => {
                return unsupported(format!(
                    "{path}: the layout {} is not edited",
                    attrs["layout"]
                ));
            }
        };
        if let Some(ids) = ids.as_ref().filter(|ids| ids.len() < count) {
            let text = format!(
                "{path}/object_ids: expected an id for each of {count} objects, found {}; run \"zvf validate\"",
                ids.len()
            );
            return fail(Class::CountMismatch, text);
        }
        let rank = read_count(path, attrs, "sid_ndim")?.unwrap_or(axes);
        let stored = object_number(count)?;
        let mut objects = Self::new(level, (doc, manifests, ids), rank, stored);
        if !(1..stored).all(|row| objects.id_of_row(row - 1) <= objects.id_of_row(row)) {
            let mut order: Vec<u32> = (0..stored).collect();
            // Of two rows with an id, the later one is last.
            order.sort_by_key(|row| objects.id_of_row(*row));
            objects.order = Some(order);
        }
        Ok(Some(objects))
    }

    /// Creates an index without objects.
    pub(crate) fn create(level: &str, axes: usize, is_dense: bool) -> Result<Self> {
        let path = &index_path(level);
        let layout = if is_dense { DENSE_LAYOUT } else { "vlen_manifests_v2" };
        let doc = serde_json::json!({"attributes": {"zv_array": "object_index", "num_objects": 0, "num_present": 0, "sid_ndim": axes,
            "layout": layout, "object_ids_sorted": true}, "zarr_format": 3, "node_type": "group"});
        let mut manifests = RowArray::create(&format!("{path}/manifests"), serde_json::json!({}))?;
        manifests.table = is_dense.then(|| ManifestTable::create(path, axes)).transpose()?;
        let ids = DenseArray::create_ids(path)?;
        Ok(Self { is_new: true, ..Self::new(level, (doc, manifests, Some(ids)), axes, 0) })
    }

    fn new(
        level: &str,
        (doc, manifests, ids): (Json, RowArray, Option<DenseArray>),
        rank: usize,
        count: u32,
    ) -> Self {
        let (known, added, stored) = (BTreeMap::new(), FxHashMap::default(), count);
        let (path, columns, is_new, order) = (level.to_owned(), Vec::new(), false, None);
        Self {
            path,
            doc,
            is_new,
            manifests,
            ids,
            columns,
            rank,
            stored,
            order,
            count,
            known,
            added,
        }
    }

    /// Returns the bytes of the rows of the index and of columns in memory, with copies of the index
    /// after a change.
    pub(crate) fn index_bytes(&self) -> usize {
        let manifests = self.manifests.rows.now.iter();
        let ids = self.ids.as_ref().map_or(0, |ids| ids.bytes.now.len());
        let columns = self.columns.iter().map(|column| column.array.bytes.now.len());
        let manifests = manifests.map(|row| row.len() + 2 * size_of::<Bytes>());
        manifests.chain(columns).sum::<usize>() + 2 * ids
    }

    /// Returns the numbers of all objects, removed ones included.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..self.count
    }

    /// Returns the id of a row of the index.
    pub(crate) fn id_of_row(&self, row: u32) -> i64 {
        match &self.ids {
            Some(ids) => i64::from_le_bytes(ids.bytes.now.as_chunks().0[num::usize_from_u32(row)]),
            None => row.into(), // the row is the id
        }
    }

    pub(crate) fn id(&self, number: u32) -> i64 {
        self.known.get(&number).map_or_else(|| self.id_of_row(number), |object| object.id)
    }

    /// Returns whether the index has a row for an object. One that this transaction added gets it
    /// at the commit.
    pub(crate) fn has_row(&self, number: u32) -> bool {
        num::usize_from_u32(number) < self.manifests.len()
    }

    /// Returns the manifest of an object before the edit; no bytes for one that was added.
    pub(crate) fn manifest(&self, number: u32) -> &[u8] {
        if self.has_row(number) { self.manifests.row(number) } else { &[] }
    }

    pub(crate) fn exists(&self, number: u32) -> bool {
        let is_stored = || has_references(self.manifest(number));
        self.known.get(&number).map_or_else(is_stored, |object| object.exists)
    }

    /// Returns the number of the last object with an id.
    pub(crate) fn find(&self, id: i64) -> Option<u32> {
        if let Some(number) = self.added.get(&id) {
            return Some(*number);
        }
        let row = |at: u32| match &self.order {
            Some(order) => order[num::usize_from_u32(at)],
            None => at,
        };
        let (mut from, mut to) = (0, self.stored);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.id_of_row(row(middle)) <= id {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from.checked_sub(1).map(row).filter(|row| self.id_of_row(*row) == id)
    }

    /// Returns the highest id that an object has or had.
    pub(crate) fn highest_id(&self) -> Option<i64> {
        let last = self.stored.checked_sub(1);
        let last = last.map(|last| {
            self.order.as_ref().and_then(|order| order.last().copied()).unwrap_or(last)
        });
        last.map(|row| self.id_of_row(row)).into_iter().chain(self.added.keys().copied()).max()
    }

    /// Returns what is known of an object, for a change.
    pub(crate) fn know(&mut self, number: u32) -> &mut Object {
        let (id, exists) = (self.id(number), self.exists(number));
        let stored = Object { id, exists, existed: exists, ..Object::default() };
        self.known.entry(number).or_insert(stored)
    }

    /// Adds an object. Returns its number.
    pub(crate) fn push(&mut self, id: i64) -> Result<u32> {
        let number = object_number(num::usize_from_u32(self.count))?;
        let (exists, loaded, touched) = (true, true, true);
        self.known.insert(number, Object { id, exists, loaded, touched, ..Object::default() });
        self.added.insert(id, number);
        self.count += 1;
        Ok(number)
    }

    /// Drops the rows behind the first `rows`, which have no references.
    pub(crate) fn drop_rows(&mut self, rows: usize) {
        self.manifests.rows.change().truncate(rows);
        self.ids.iter_mut().for_each(|ids| ids.resize(rows));
        self.columns.iter_mut().for_each(|column| column.array.resize(rows));
        (self.stored, self.count) = (num::index_u32(rows), num::index_u32(rows));
    }
}

/// Returns the path of the index of the objects of a level.
pub(crate) fn index_path(level: &str) -> String {
    format!("{level}/object_index")
}

/// Returns the path of the columns of the objects of a level.
pub(crate) fn columns_path(level: &str) -> String {
    format!("{level}/object_attributes")
}

/// Reads a count of a document. Returns `None` where it is absent.
///
/// # Errors
///
/// When the value is not a count.
pub(crate) fn read_count(path: &str, attrs: &Json, name: &str) -> Result<Option<usize>> {
    let value = &attrs[name];
    read_member(
        value,
        |value| value.as_u64().and_then(num::checked_usize),
        || format!("{path}, {name}: expected a number that is not negative, found {value}"),
    )
}

/// Returns the number of the next object after `count` others.
///
/// # Errors
///
/// When the numbers are used up: [`NONE`] is not a number of an object.
fn object_number(count: usize) -> Result<u32> {
    u32::try_from(count).ok().filter(|number| *number != NONE).or_fail(Class::LimitExceeded, || {
        format!("expected a store of fewer than {NONE} objects, found more")
    })
}

/// Lists the names of the child nodes of a group. What is left of a removed one is an empty folder.
///
/// # Errors
///
/// When anything is stored in a child that has no document.
pub(crate) fn list_children(snap: &Snapshot, path: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in snap.list(path)?.into_iter().filter(|name| name != "zarr.json") {
        let child = format!("{path}/{name}");
        if snap.get(&doc_key(&child))?.is_some() {
            found.push(name);
            continue;
        }
        refuse_stored(snap, &child)?;
    }
    Ok(found)
}

/// Refuses what is stored at a path without a document: a new node would hide it.
pub(crate) fn refuse_stored(snap: &Snapshot, path: &str) -> Result<()> {
    for key in snap.journal.store.walk(path)? {
        // A later commit may have created the node.
        if snap.open_object(&key)?.is_some() {
            let found = "found nothing; run \"zvf validate\"";
            let text = format!("{path}/zarr.json: expected the document of {key}, {found}");
            return fail(Class::NotFound, text);
        }
    }
    Ok(())
}

/// Parses the type that a document names, or `default` where it names none.
pub(crate) fn parse_scalar(dtype: &Json, default: &str) -> Result<Scalar> {
    let name = if dtype.is_null() { Some(default) } else { dtype.as_str() };
    let (scalar, big) = Scalar::parse(name.or_fail(Class::Encoding, || {
        format!("dtype: expected the name of a type, found {dtype}")
    })?)?;
    if big && scalar.size() > 1 {
        return unsupported(
            "cells with the other byte order are not edited; write the store again with \"zvf \
             rewrite --format-version 0.9.2\"",
        );
    }
    Ok(scalar)
}

/// Returns the type of a column from the attributes of its array, with a given width.
pub(crate) fn column_type(attrs: &Json, width: u32) -> Result<ColumnType> {
    let scalar = parse_scalar(&attrs["dtype"], "float32")?;
    let categories = if attrs["encoding"] == "dictionary" {
        // Without the list, a new category would get a code that has another meaning.
        let values = attrs["categories"].as_array().or_fail(Class::Encoding, || {
            format!("categories: expected a list, found {}", attrs["categories"])
        })?;
        Some(Categories { values: values.clone(), missing: attrs["_FillValue"].as_i64() })
    } else {
        None
    };
    Ok(ColumnType { scalar, width, categories })
}

/// Opens the columns of objects or groups in a group whose names are `wanted`.
pub(crate) fn open_row_columns(
    snap: &Snapshot,
    group: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<RowColumn>> {
    let names = list_children(snap, group)?.into_iter().filter(|name| wanted(name));
    let columns = names.map(|name| open_row_column(snap, group, &name));
    columns.filter_map(Result::transpose).collect()
}

/// Opens a column of objects or groups in a group.
pub(crate) fn open_row_column(
    snap: &Snapshot,
    group: &str,
    name: &str,
) -> Result<Option<RowColumn>> {
    let opened = DenseArray::open(snap, &format!("{group}/{name}"))?;
    Ok(opened.map(|(array, ty)| RowColumn { name: name.to_owned(), array, ty }))
}

/// Returns whether a manifest names any fragment. Its first four bytes are their number.
pub(crate) fn has_references(manifest: &[u8]) -> bool {
    manifest.get(..4).is_some_and(|count| count != [0; 4])
}

/// Encodes a manifest that names these fragments. Of each it is known whether another line starts with it.
pub(crate) fn manifest_bytes<'a>(
    rank: usize,
    references: impl IntoIterator<Item = (&'a Chunk, u32, bool)>,
) -> Result<Bytes> {
    let mut builder = ManifestBuilder::new(num::to_u64(rank))?;
    for (chunk, fragment, starts_line) in references {
        if starts_line {
            builder.push_explicit(chunk, &[])?;
        }
        builder.push_single(chunk, u64::from(fragment))?;
    }
    Ok(builder.encode().into())
}
